//! Libraries that the program loads while it is replayed, and that can lie elsewhere than in the recording.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use super::access;
use super::monitor::MONITOR;
use super::output;

/// The beginning of `struct dl_phdr_info`.
#[repr(C)]
struct Loaded {
    start: usize,
    name: *const c_char,
    headers: *const c_void,
    header_count: u16,
    /// How many modules have been loaded so far.
    loads: u64,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        act: unsafe extern "C" fn(*mut Loaded, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// How many modules had been loaded at the last look.
static LOADS: AtomicU64 = AtomicU64::new(0);

/// What is there from the start lies where it lay in the recording.
pub fn begin() {
    LOADS.store(loads(), Ordering::Relaxed);
}

/// The constructor of a module runs: if that was loaded late, the schedule's addresses in it are made those
/// of this run, and a reader of the report is told where it lies.
pub fn look() {
    let now = loads();
    if LOADS.swap(now, Ordering::Relaxed) == now {
        return;
    }
    output::tell_maps();
    let mut guard = MONITOR.lock();
    let schedule = guard.schedule();
    each_module(&mut |module| {
        // SAFETY: the loader's own name of a module, which is there for as long as the module is.
        let name = base_name(unsafe { CStr::from_ptr(module.name) }.to_bytes());
        let mut same = { schedule.modules.iter() }
            .filter(|known| is_same(base_name(known.path.as_bytes()), name));
        if let (Some(known), None) = (same.next(), same.next())
            && known.start != module.start
            && !name.is_empty()
        {
            guard.module_moved(known, module.start);
        }
    });
    access::watch(&schedule, |address| guard.now_at(address));
}

fn loads() -> u64 {
    let mut loads = 0;
    each_module(&mut |module| loads = module.loads);
    loads
}

/// Calls `act` with everything that is loaded.
fn each_module(act: &mut dyn FnMut(&Loaded)) {
    unsafe extern "C" fn call(module: *mut Loaded, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the pointer that is passed below, and the loader passes a module.
        unsafe {
            let act = &mut *data.cast::<&mut dyn FnMut(&Loaded)>();
            act(&*module);
        }
        0
    }
    let mut act = act;
    // SAFETY: `call` takes what is passed here, which lives through the call.
    unsafe { dl_iterate_phdr(call, (&raw mut act).cast()) };
}

fn base_name(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|byte| *byte == b'/');
    &path[start.map_or(0, |slash| slash + 1)..]
}

/// Byte by byte: the functions that compare memory are interposed.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_is_known_by_its_base_name() {
        assert_eq!(base_name(b"./lib/one.so"), b"one.so");
        assert_eq!(base_name(b"one.so"), b"one.so");
        assert!(is_same(b"one.so", b"one.so") && !is_same(b"one.so", b"two.so"));
        let mut names = 0;
        each_module(&mut |module| names += usize::from(!module.name.is_null()));
        assert!(names > 1 && loads() > 1, "this program and the C library");
    }
}
