//! Atomic operations of the compilers' ThreadSanitizer interface.
//!
//! The hook does the operation itself, always sequentially consistent, which every order allows.
//! While a thread does it and takes its sequence number it holds one of a few hundred locks, chosen
//! by address, so that the order of the numbers is the order of the operations on that address.
//! A signal handler that finds the lock held by its own thread goes on without it.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::control;
use crate::mode::{is_controlled, is_off};
use crate::operation::Operation;
use crate::record::polls::Read;
use crate::wire::{Code, atomic_detail};
use crate::{record, sys, tls};

const LOAD: u8 = 0;
const STORE: u8 = 1;
const READ_MODIFY_WRITE: u8 = 2;
const FAILED_EXCHANGE: u8 = 3;

const STRIPES: usize = 512;

#[repr(align(64))]
struct Stripe {
    /// The thread that has the lock, or 0.
    owner: AtomicU64,
    /// How many operations that may have written were done under the lock.
    writes: AtomicU64,
}

static STRIPE: [Stripe; STRIPES] = [const {
    Stripe {
        owner: AtomicU64::new(0),
        writes: AtomicU64::new(0),
    }
}; STRIPES];

/// The lock of one address, held until dropped.
struct Held {
    stripe: &'static Stripe,
    /// Not if the thread had the lock already.
    releases: bool,
}

impl Held {
    fn take(address: usize) -> Held {
        let stripe = &STRIPE[(address >> 3).wrapping_mul(0x9E37_79B9) >> 5 & (STRIPES - 1)];
        let me = tls::thread() as u64 | 1;
        let mut tries = 0;
        loop {
            let owner = &stripe.owner;
            match owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    return Held {
                        stripe,
                        releases: true,
                    };
                }
                Err(owner) if owner == me => {
                    return Held {
                        stripe,
                        releases: false,
                    };
                }
                Err(_) => {
                    tries += 1;
                    if tries % 64 == 0 {
                        sys::yield_now();
                    }
                    core::hint::spin_loop();
                }
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.releases {
            self.stripe.owner.store(0, Ordering::Release);
        }
    }
}

/// In the child process after a fork, where the holders may no longer exist.
pub fn forget() {
    for stripe in &STRIPE {
        stripe.owner.store(0, Ordering::Relaxed);
    }
}

/// What an operation did besides its result.
enum Did {
    /// It has only read, and seen this value (of 16 bytes, their exclusive or).
    Loaded(u64),
    /// A compare-exchange that failed, the same.
    Failed(u64),
    Wrote,
}

/// Does one atomic operation in the current mode.
#[inline(always)]
fn perform<R>(
    size: usize,
    kind: u8,
    order: i32,
    failure_order: i32,
    address: usize,
    pc: usize,
    act: impl FnOnce() -> (R, Did),
) -> R {
    if is_off() {
        return act().0;
    }
    if is_controlled() {
        return control::access::atomic(kind, address, size, order, failure_order, pc, || {
            let (result, did) = act();
            (result, !matches!(did, Did::Failed(_)))
        });
    }
    let log2 = size.trailing_zeros() as u8;
    let detail = |kind, order: i32| atomic_detail(log2, kind, order as u8);
    let mut operation = Operation::new(Code::Atomic, detail(kind, order), address, pc);
    operation.before();
    let held = Held::take(address);
    let (result, did) = act();
    if matches!(did, Did::Failed(_)) {
        operation.detail = detail(FAILED_EXCHANGE, failure_order);
    }
    let writes = &held.stripe.writes;
    match did {
        Did::Loaded(value) | Did::Failed(value) => record::atomic_read(Read {
            pc,
            address,
            detail: operation.detail,
            writes: writes.load(Ordering::Relaxed),
            value,
        }),
        Did::Wrote => {
            writes.fetch_add(1, Ordering::Relaxed);
            operation.after(Code::Atomic);
        }
    }
    drop(held);
    result
}

/// A value as polls compare it.
trait Value: Copy {
    fn folded(self) -> u64;
}

macro_rules! value {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn folded(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

value!(u8 u16 u32 u64);

impl Value for u128 {
    fn folded(self) -> u64 {
        (self >> 64) as u64 ^ self as u64
    }
}

/// A compare-exchange that fails only reads, and has the order of a load.
fn order_of_failure(order: i32) -> i32 {
    const RELEASE: i32 = 3;
    const ACQ_REL: i32 = 4;
    const ACQUIRE: i32 = 2;
    match order {
        RELEASE => 0,
        ACQ_REL => ACQUIRE,
        other => other,
    }
}

/// 16 bytes, for which there is no type on stable Rust.
#[repr(C, align(16))]
struct Wide(core::cell::UnsafeCell<u128>);

impl Wide {
    /// (value before, whether it was `expected` and is now `new`)
    fn exchange(&self, expected: u128, new: u128) -> (u128, bool) {
        let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
        let done: u8;
        // SAFETY: the program does an atomic operation on these 16 aligned bytes. The compiler
        // keeps rbx for itself, so it is exchanged around the instruction.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, rsi",
                inout("rsi") new as u64 => _,
                in("rdi") self.0.get(),
                out("r8b") done,
                inout("rax") low,
                inout("rdx") high,
                in("rcx") (new >> 64) as u64,
                options(nostack),
            );
        }
        (u128::from(low) | u128::from(high) << 64, done != 0)
    }

    fn load(&self, _: Ordering) -> u128 {
        self.exchange(0, 0).0
    }

    fn update(&self, change: impl Fn(u128) -> u128) -> u128 {
        let mut seen = self.load(Ordering::SeqCst);
        loop {
            let (before, done) = self.exchange(seen, change(seen));
            if done {
                return before;
            }
            seen = before;
        }
    }

    fn store(&self, value: u128, _: Ordering) {
        self.update(|_| value);
    }

    fn swap(&self, value: u128, _: Ordering) -> u128 {
        self.update(|_| value)
    }

    fn fetch_add(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old.wrapping_add(value))
    }

    fn fetch_sub(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old.wrapping_sub(value))
    }

    fn fetch_and(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old & value)
    }

    fn fetch_or(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old | value)
    }

    fn fetch_xor(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old ^ value)
    }

    fn fetch_nand(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| !(old & value))
    }

    fn compare_exchange(
        &self,
        expected: u128,
        new: u128,
        _: Ordering,
        _: Ordering,
    ) -> Result<u128, u128> {
        match self.exchange(expected, new) {
            (before, true) => Ok(before),
            (before, false) => Err(before),
        }
    }
}

const SEQ_CST: Ordering = Ordering::SeqCst;

/// One hook: the body, a function that the stub goes on to with the return address as one more
/// argument, and the stub.
macro_rules! hook {
    ($register:literal $name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)? |$pc:ident| $body:block) => {
        const _: () = {
            unsafe extern "C" fn implementation($($argument: $type,)* $pc: usize) $(-> $result)? {
                // SAFETY: the program gives the address of the bytes that it operates on.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    concat!("mov ", $register, ", qword ptr [rsp]"),
                    "jmp {implementation}",
                    implementation = sym implementation,
                )
            }
        };
    };
}

/// `$after1`: the register behind an address, a value and an order; `$after2`: behind one value
/// more and another order. A 16-byte value takes two registers; with two of them the return
/// address would go on the stack, so `$compare` hooks have their own stubs there.
macro_rules! width {
    ($value:ty, $atomic:ty, $size:literal, $after_value:literal,
     $load:ident $store:ident $exchange:ident
     $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident) => {
        hook!("rdx" $load(place: *const $atomic, order: i32) -> $value |pc| {
            perform($size, LOAD, order, 0, place as usize, pc, || {
                let value = (*place).load(SEQ_CST);
                (value, Did::Loaded(value.folded()))
            })
        });
        hook!($after_value $store(place: *const $atomic, value: $value, order: i32) |pc| {
            perform($size, STORE, order, 0, place as usize, pc, || {
                ((*place).store(value, SEQ_CST), Did::Wrote)
            })
        });
        width!(@modify $value, $atomic, $size, $after_value, $exchange swap, $add fetch_add, $sub fetch_sub,
            $and fetch_and, $or fetch_or, $xor fetch_xor, $nand fetch_nand);
    };
    (@modify $value:ty, $atomic:ty, $size:literal, $after_value:literal, $($name:ident $method:ident),*) => {$(
        hook!($after_value $name(place: *const $atomic, value: $value, order: i32) -> $value |pc| {
            perform($size, READ_MODIFY_WRITE, order, 0, place as usize, pc, || {
                ((*place).$method(value, SEQ_CST), Did::Wrote)
            })
        });
    )*};
}

/// gcc's compare-exchange: a pointer to what is expected, and whether it was.
unsafe fn exchange_at<V: Value>(
    size: usize,
    place: usize,
    expected: *mut V,
    orders: (i32, i32),
    pc: usize,
    exchange: impl FnOnce(V) -> Result<V, V>,
) -> i32 {
    perform(
        size,
        READ_MODIFY_WRITE,
        orders.0,
        orders.1,
        place,
        pc,
        || {
            // SAFETY: the program's variable.
            match exchange(unsafe { *expected }) {
                Ok(_) => (1, Did::Wrote),
                Err(seen) => {
                    // SAFETY: as above.
                    unsafe { *expected = seen };
                    (0, Did::Failed(seen.folded()))
                }
            }
        },
    )
}

macro_rules! compare {
    ($value:ty, $atomic:ty, $size:literal, $strong:ident $weak:ident $val:ident) => {
        compare!(@gcc $value, $atomic, $size, $strong $weak);
        // clang's: returns the value that was there.
        hook!("r9" $val(place: *const $atomic, expected: $value, new: $value, order: i32, failure: i32) -> $value |pc| {
            perform($size, READ_MODIFY_WRITE, order, order_of_failure(failure), place as usize, pc, || {
                match (*place).compare_exchange(expected, new, SEQ_CST, SEQ_CST) {
                    Ok(seen) => (seen, Did::Wrote),
                    Err(seen) => (seen, Did::Failed(seen.folded())),
                }
            })
        });
    };
    (@gcc $value:ty, $atomic:ty, $size:literal, $($name:ident)*) => {$(
        hook!("r9" $name(place: *const $atomic, expected: *mut $value, new: $value, order: i32, failure: i32) -> i32 |pc| {
            exchange_at($size, place as usize, expected, (order, order_of_failure(failure)), pc, |expected| {
                (*place).compare_exchange(expected, new, SEQ_CST, SEQ_CST)
            })
        });
    )*};
}

width!(u8, AtomicU8, 1, "rcx", __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
    __tsan_atomic8_fetch_add __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and
    __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand);
width!(u16, AtomicU16, 2, "rcx", __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
    __tsan_atomic16_fetch_add __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and
    __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand);
width!(u32, AtomicU32, 4, "rcx", __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
    __tsan_atomic32_fetch_add __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and
    __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand);
width!(u64, AtomicU64, 8, "rcx", __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
    __tsan_atomic64_fetch_add __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and
    __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand);
width!(u128, Wide, 16, "r8", __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange
    __tsan_atomic128_fetch_add __tsan_atomic128_fetch_sub __tsan_atomic128_fetch_and
    __tsan_atomic128_fetch_or __tsan_atomic128_fetch_xor __tsan_atomic128_fetch_nand);

compare!(u8, AtomicU8, 1, __tsan_atomic8_compare_exchange_strong
    __tsan_atomic8_compare_exchange_weak __tsan_atomic8_compare_exchange_val);
compare!(u16, AtomicU16, 2, __tsan_atomic16_compare_exchange_strong
    __tsan_atomic16_compare_exchange_weak __tsan_atomic16_compare_exchange_val);
compare!(u32, AtomicU32, 4, __tsan_atomic32_compare_exchange_strong
    __tsan_atomic32_compare_exchange_weak __tsan_atomic32_compare_exchange_val);
compare!(u64, AtomicU64, 8, __tsan_atomic64_compare_exchange_strong
    __tsan_atomic64_compare_exchange_weak __tsan_atomic64_compare_exchange_val);

// place rdi, expected rsi, new rdx:rcx, order r8, failure r9: the return address finds no
// register, so these two and clang's, which has its orders on the stack, go without a place.
macro_rules! compare_wide {
    ($($name:ident)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(place: *const Wide, expected: *mut u128, new: u128, order: i32, failure: i32) -> i32 {
            // SAFETY: the program gives the addresses of what it operates on.
            unsafe {
                exchange_at(16, place as usize, expected, (order, order_of_failure(failure)), 0, |expected| {
                    (*place).compare_exchange(expected, new, SEQ_CST, SEQ_CST)
                })
            }
        }
    )*};
}

compare_wide! { __tsan_atomic128_compare_exchange_strong __tsan_atomic128_compare_exchange_weak }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __tsan_atomic128_compare_exchange_val(
    place: *const Wide,
    expected: u128,
    new: u128,
    order: i32,
    failure: i32,
) -> u128 {
    let failure = order_of_failure(failure);
    perform(
        16,
        READ_MODIFY_WRITE,
        order,
        failure,
        place as usize,
        0,
        || {
            // SAFETY: the program gives the address of what it operates on.
            match unsafe { &*place }.compare_exchange(expected, new, SEQ_CST, SEQ_CST) {
                Ok(seen) => (seen, Did::Wrote),
                Err(seen) => (seen, Did::Failed(seen.folded())),
            }
        },
    )
}

hook!("rsi" __tsan_atomic_thread_fence(order: i32) |pc| {
    core::sync::atomic::fence(SEQ_CST);
    if !is_off() {
        let operation = Operation::new(Code::Fence, order as u8, 0, pc);
        operation.before();
        operation.after(Code::Fence);
    }
});

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __tsan_atomic_signal_fence(_order: i32) {
    core::sync::atomic::compiler_fence(SEQ_CST);
}
