//! The functions that the runtime interposes, as the program would have found them without us.
//!
//! Looked up when the library is loaded, since a lookup ends the life of what `dlerror` has returned to
//! the program; on first use where constructors of other libraries come before ours. The lookup of
//! condition variables names the version, since an unversioned one may find the old interface.

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// A real function; the strings end with a zero byte.
pub struct Function {
    pub name: &'static str,
    pub version: Option<&'static str>,
    /// Its address, once that is known.
    pub kept: &'static AtomicUsize,
}

/// Finds all functions that are there.
#[cfg(not(test))]
pub fn find_all() {
    unsafe extern "C" {
        #[link_name = "__start_norns_real"]
        static FIRST: u8;
        #[link_name = "__stop_norns_real"]
        static END: u8;
    }
    let (mut at, end) = (&raw const FIRST, &raw const END);
    while at < end {
        // SAFETY: the section has only values of this type, which `real` puts there; the linker
        // defines where it begins and ends.
        let function = unsafe { &*at.cast::<Function>() };
        if function.kept.load(Ordering::Acquire) == 0 {
            let address = look_up(function.name, function.version);
            function.kept.store(address as usize, Ordering::Release);
        }
        at = at.wrapping_add(size_of::<Function>());
    }
    // SAFETY: takes nothing. What is not there would be the error that the program asks for first.
    unsafe { sys::dlerror() };
}

fn look_up(name: &str, version: Option<&str>) -> *mut c_void {
    let symbol = name.as_ptr().cast::<c_char>();
    let mut address: *mut c_void = core::ptr::null_mut();
    // SAFETY: both strings end with a zero byte; every caller writes them with `concat!`.
    unsafe {
        if let Some(version) = version {
            address = sys::dlvsym(sys::RTLD_NEXT, symbol, version.as_ptr().cast());
        }
        if address.is_null() {
            address = sys::dlsym(sys::RTLD_NEXT, symbol);
        }
    }
    address
}

/// Finds the next definition of a function behind this library and keeps it.
#[cold]
pub fn find(name: &str, version: Option<&str>, kept: &AtomicUsize) -> usize {
    let address = look_up(name, version);
    if address.is_null() {
        sys::write(2, b"norns: the C library has no function ");
        sys::write(2, name.as_bytes().strip_suffix(b"\0").unwrap_or_default());
        sys::fatal(b"\n");
    }
    kept.store(address as usize, Ordering::Release);
    address as usize
}

/// Declares functions of this name that call the real ones.
macro_rules! real {
    ($($(#[version = $version:literal])? fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {$(
        #[inline(always)]
        #[allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            use core::sync::atomic::{AtomicUsize, Ordering};
            static ADDRESS: AtomicUsize = AtomicUsize::new(0);
            const NAME: &str = concat!(stringify!($name), "\0");
            #[allow(unused_mut, unused_assignments)]
            const VERSION: Option<&str> = {
                let mut version = None;
                $(version = Some(concat!($version, "\0"));)?
                version
            };
            #[used]
            #[unsafe(link_section = "norns_real")]
            static FUNCTION: $crate::real::Function = $crate::real::Function {
                name: NAME,
                version: VERSION,
                kept: &ADDRESS,
            };
            let mut address = ADDRESS.load(Ordering::Acquire);
            if address == 0 {
                address = $crate::real::find(NAME, VERSION, &ADDRESS);
            }
            // SAFETY: the C library documents this signature for the symbol.
            let function: unsafe extern "C-unwind" fn($($type),*) $(-> $result)? =
                unsafe { core::mem::transmute(address) };
            // SAFETY: the caller keeps the contract of the C library's function, whose arguments
            // these are.
            unsafe { function($($argument),*) }
        }
    )*};
}

/// Defines functions that take the place of the C library's. Each gets the address that it
/// returns to as one more argument, read by a stub: `|pc|`.
macro_rules! interpose {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? |$pc:ident| $body:block)*) => {$(
        const _: () = {
            #[allow(unused_variables)]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C-unwind" fn implementation($($argument: $type,)* $pc: usize) $(-> $result)? {
                #[allow(unused_unsafe)]
                // SAFETY: the program calls this in place of the C library's function and keeps its
                // contract.
                unsafe {
                    $crate::record::failure::called_from($pc);
                    $body
                }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
                core::arch::naked_asm!(
                    $crate::real::pass_return_address!($($argument)*),
                    implementation = sym implementation,
                )
            }
        };
    )*};
}

/// Defines variadic functions that take the place of the C library's and return an `int`. The body
/// gets the variable arguments as a `va_list`, which a stub makes: the registers that can hold
/// arguments, and where the others are on the stack.
macro_rules! interpose_variadic {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?; $list:ident) |$pc:ident| $body:block)*) => {$(
        const _: () = {
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C-unwind" fn implementation($($argument: $type,)* $list: List) -> c_int {
                // SAFETY: the stub has just made the list.
                let $pc = unsafe { (*$list).return_address() };
                // SAFETY: as in `interpose`.
                unsafe { $body }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            #[allow(non_snake_case)]
            unsafe extern "C-unwind" fn $name() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 216",
                    ".cfi_adjust_cfa_offset 216",
                    "mov [rsp + 32], rdi",
                    "mov [rsp + 40], rsi",
                    "mov [rsp + 48], rdx",
                    "mov [rsp + 56], rcx",
                    "mov [rsp + 64], r8",
                    "mov [rsp + 72], r9",
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 80], xmm0",
                    "movaps [rsp + 96], xmm1",
                    "movaps [rsp + 112], xmm2",
                    "movaps [rsp + 128], xmm3",
                    "movaps [rsp + 144], xmm4",
                    "movaps [rsp + 160], xmm5",
                    "movaps [rsp + 176], xmm6",
                    "movaps [rsp + 192], xmm7",
                    "2:",
                    "mov dword ptr [rsp], {named}",
                    "mov dword ptr [rsp + 4], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 8], rax",
                    "lea rax, [rsp + 32]",
                    "mov [rsp + 16], rax",
                    concat!("mov ", $crate::register_behind!($($argument)*), ", rsp"),
                    "call {implementation}",
                    "add rsp, 216",
                    ".cfi_adjust_cfa_offset -216",
                    "ret",
                    ".cfi_endproc",
                    named = const 8 * [$(stringify!($argument)),*].len(),
                    implementation = sym implementation,
                )
            }
        };
    )*};
}

/// Goes on to `{implementation}` with the return address as one more argument: in the next register
/// or, behind six others, on the stack.
macro_rules! pass_return_address {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => {
        concat!(
            ".cfi_startproc\n",
            "push qword ptr [rsp]\n",
            ".cfi_adjust_cfa_offset 8\n",
            "call {implementation}\n",
            "add rsp, 8\n",
            ".cfi_adjust_cfa_offset -8\n",
            "ret\n",
            ".cfi_endproc",
        )
    };
    ($($argument:ident)*) => {
        concat!(
            "mov ",
            $crate::register_behind!($($argument)*),
            ", qword ptr [rsp]\n",
            "jmp {implementation}",
        )
    };
}

/// The register of the argument behind so many others.
macro_rules! register_behind {
    () => {
        "rdi"
    };
    ($a:ident) => {
        "rsi"
    };
    ($a:ident $b:ident) => {
        "rdx"
    };
    ($a:ident $b:ident $c:ident) => {
        "rcx"
    };
    ($a:ident $b:ident $c:ident $d:ident) => {
        "r8"
    };
    ($a:ident $b:ident $c:ident $d:ident $e:ident) => {
        "r9"
    };
}

pub(crate) use {interpose, interpose_variadic, pass_return_address, real, register_behind};
