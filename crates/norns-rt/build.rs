//! Sends calls of memory functions in the runtime's own code to `src/memory.rs`.

fn main() {
    for name in ["memcpy", "memmove", "memset", "memcmp", "bcmp"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
