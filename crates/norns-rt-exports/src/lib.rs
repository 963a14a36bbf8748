//! The names `memcpy`, `memmove`, `memset`, `memcmp` and `bcmp` of the library in the program.
//!
//! The compiler calls these functions for copies and comparisons in norns-rt's own code too, where they
//! must not reach the hooks: what the runtime does to its own memory would be taken for an access of
//! the program. The linker's `--wrap` (`norns-rt/build.rs`) sends a call to `norns-rt/src/memory.rs`
//! instead, but only if the calling object file does not define the function itself. So the
//! definitions, which jump to the hooks, are in this crate.
#![no_std]

macro_rules! export {
    ($($name:ident = $hook:literal,)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(concat!("jmp ", $hook))
        }
    )*

    /// For the linker, which takes what is referred to out of this crate's archive.
    pub static ALL: [unsafe extern "C" fn(); [$($hook),*].len()] = [$($name),*];
    };
}

export! {
    memcpy = "__tsan_memcpy",
    memmove = "__tsan_memmove",
    memset = "__tsan_memset",
    memcmp = "__norns_memcmp",
    bcmp = "__norns_bcmp",
}
