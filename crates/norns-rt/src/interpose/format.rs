//! The formats of `printf` and `scanf`: which of their arguments point to memory, and how much of it.
//!
//! Arguments are taken from a copy of the caller's list. Formats with numbered arguments (`%2$s`) and
//! conversions that are not known here end the walk: what follows is not seen. Wide strings are passed
//! over.

use core::ffi::{c_char, c_int, c_void};

/// `va_list` of x86-64: where the next arguments are.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Arguments {
    general_offset: u32,
    float_offset: u32,
    /// The next argument on the stack.
    overflow: *mut u8,
    registers: *mut u8,
}

impl Arguments {
    const GENERAL_END: u32 = 48;
    const FLOAT_END: u32 = 176;

    /// The return address of the variadic function whose stub has just made this list.
    ///
    /// # Safety
    /// No argument on the stack was taken yet.
    pub unsafe fn return_address(&self) -> usize {
        // SAFETY: the arguments on the stack lie just above the return address.
        unsafe { self.overflow.cast::<usize>().sub(1).read() }
    }

    /// # Safety
    /// The list has one more argument, and that is an integer or a pointer.
    unsafe fn word(&mut self) -> usize {
        let place = if self.general_offset < Self::GENERAL_END {
            let place = self.registers.wrapping_add(self.general_offset as usize);
            self.general_offset += 8;
            place
        } else {
            self.on_stack(8)
        };
        // SAFETY: the caller's promise.
        unsafe { place.cast::<usize>().read() }
    }

    fn on_stack(&mut self, size: usize) -> *mut u8 {
        let place = self.overflow;
        self.overflow = place.wrapping_add(size);
        place
    }

    fn skip_double(&mut self) {
        if self.float_offset < Self::FLOAT_END {
            self.float_offset += 16;
        } else {
            self.on_stack(8);
        }
    }

    fn skip_long_double(&mut self) {
        self.overflow = self.overflow.map_addr(|address| (address + 15) & !15);
        self.on_stack(16);
    }
}

/// The bytes of a format that are still to be read.
struct Format(*const u8);

impl Format {
    /// 0 at the end, again and again.
    fn peek(&self) -> u8 {
        // SAFETY: a format ends with a zero byte, and `next` does not go beyond it.
        unsafe { *self.0 }
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        if byte != 0 {
            self.0 = self.0.wrapping_add(1);
        }
        byte
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.peek() != 0 && bytes.contains(&self.peek()) {
            self.next();
        }
    }

    /// Goes behind the next `%`; false at the end.
    fn find_conversion(&mut self) -> bool {
        loop {
            match self.next() {
                0 => return false,
                b'%' => return true,
                _ => {}
            }
        }
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while self.peek().is_ascii_digit() {
            let digit = usize::from(self.next() - b'0');
            number = Some(
                number
                    .unwrap_or(0usize)
                    .saturating_mul(10)
                    .saturating_add(digit),
            );
        }
        number
    }

    /// The size of the integer that the length modifier means.
    fn length(&mut self) -> Length {
        match self.peek() {
            b'h' => {
                self.next();
                if self.peek() == b'h' {
                    self.next();
                    Length(1)
                } else {
                    Length(2)
                }
            }
            b'l' => {
                self.next();
                self.skip(b"l");
                Length(8)
            }
            b'L' => {
                self.next();
                Length(16)
            }
            b'q' | b'j' | b'z' | b'Z' | b't' => {
                self.next();
                Length(8)
            }
            _ => Length(4),
        }
    }
}

/// A length modifier, as the size of an integer with it; 16 is `L`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Length(usize);

impl Length {
    fn of_integer(self) -> usize {
        self.0.min(8)
    }

    fn of_float(self) -> usize {
        self.0.max(4)
    }

    fn is_wide(self) -> bool {
        self.0 == 8
    }
}

/// An argument of `printf` that points to memory.
#[derive(Clone, Copy)]
pub enum Printed {
    /// A string, of which so many bytes are printed at most.
    Text(*const c_char, usize),
    /// An integer of this size is stored there.
    Count(*const c_void, usize),
}

/// Calls `act` with the arguments of a `printf` that point to memory.
///
/// # Safety
/// The program passed both to a function of the `printf` family.
pub unsafe fn printed(format: *const c_char, mut list: Arguments, mut act: impl FnMut(Printed)) {
    let mut format = Format(format.cast());
    while !format.0.is_null() && format.find_conversion() {
        format.skip(b"-+ #0'I");
        if format.peek() == b'*' {
            format.next();
            // SAFETY: the caller's promise: every conversion has its arguments.
            unsafe { list.word() };
        } else {
            format.number();
        }
        let mut precision = usize::MAX;
        if format.peek() == b'.' {
            format.next();
            precision = if format.peek() == b'*' {
                format.next();
                // SAFETY: as above.
                let asked = unsafe { list.word() } as c_int;
                usize::try_from(asked).unwrap_or(usize::MAX)
            } else {
                format.number().unwrap_or(0)
            };
        }
        let length = format.length();
        match format.next() {
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'b' | b'B' | b'c' | b'C' | b'p' | b'S' => {
                // SAFETY: as above.
                unsafe { list.word() };
            }
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' if length == Length(16) => {
                list.skip_long_double();
            }
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => list.skip_double(),
            b's' => {
                // SAFETY: as above.
                let text = unsafe { list.word() };
                if !length.is_wide() && text != 0 {
                    act(Printed::Text(text as *const c_char, precision));
                }
            }
            b'n' => {
                // SAFETY: as above.
                let place = unsafe { list.word() };
                act(Printed::Count(place as *const c_void, length.of_integer()));
            }
            b'm' | b'%' => {}
            _ => return,
        }
    }
}

/// What `scanf` has stored.
#[derive(Clone, Copy)]
pub enum Scanned {
    /// So many bytes.
    Bytes(*const c_void, usize),
    /// A string with its terminating zero.
    Text(*const c_char),
}

/// Calls `act` with what the first `assigned` conversions of a `scanf` have stored.
///
/// # Safety
/// The program passed both to a function of the `scanf` family, which has returned `assigned`.
pub unsafe fn scanned(
    format: *const c_char,
    mut list: Arguments,
    mut assigned: c_int,
    mut act: impl FnMut(Scanned),
) {
    let mut format = Format(format.cast());
    while !format.0.is_null() && assigned > 0 && format.find_conversion() {
        format.skip(b"'I");
        let suppressed = format.peek() == b'*';
        format.skip(b"*");
        let width = format.number();
        let allocates = format.peek() == b'm';
        format.skip(b"m");
        let length = format.length();
        let conversion = format.next();
        if conversion == b'[' {
            format.skip(b"^");
            format.next();
            while format.peek() != 0 && format.next() != b']' {}
        }
        if suppressed || conversion == b'%' {
            continue;
        }
        let bytes = match conversion {
            _ if allocates => Some(8),
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'n' => Some(length.of_integer()),
            b'p' => Some(8),
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => Some(length.of_float()),
            b'c' if length.is_wide() => Some(4 * width.unwrap_or(1)),
            b'c' => Some(width.unwrap_or(1)),
            b'C' => Some(4 * width.unwrap_or(1)),
            b's' | b'[' | b'S' => None,
            _ => return,
        };
        // SAFETY: the caller's promise: every conversion has its argument.
        let place = unsafe { list.word() };
        match bytes {
            Some(size) => act(Scanned::Bytes(place as *const c_void, size)),
            None if length.is_wide() || conversion == b'S' => {}
            None => act(Scanned::Text(place as *const c_char)),
        }
        if conversion != b'n' {
            assigned -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Printed, Scanned, printed, scanned};

    /// A list whose arguments are all on the stack.
    fn list(words: &mut [usize]) -> Arguments {
        Arguments {
            general_offset: Arguments::GENERAL_END,
            float_offset: Arguments::FLOAT_END,
            overflow: words.as_mut_ptr().cast(),
            registers: core::ptr::null_mut(),
        }
    }

    fn of_printf(format: &core::ffi::CStr, words: &mut [usize]) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        // SAFETY: the tests pass as many words as their formats ask for.
        unsafe {
            printed(format.as_ptr(), list(words), |argument| {
                all.push(match argument {
                    Printed::Text(text, most) => (text as usize, most),
                    Printed::Count(place, size) => (place as usize, size),
                });
            });
        }
        all
    }

    fn of_scanf(
        format: &core::ffi::CStr,
        assigned: i32,
        words: &mut [usize],
    ) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        // SAFETY: as above.
        unsafe {
            scanned(format.as_ptr(), list(words), assigned, |argument| {
                all.push(match argument {
                    Scanned::Bytes(place, size) => (place as usize, size),
                    Scanned::Text(text) => (text as usize, 0),
                });
            });
        }
        all
    }

    #[test]
    fn printf_reads_its_strings_and_stores_counts() {
        const ALL: usize = usize::MAX;
        assert_eq!(of_printf(c"%d %s%%", &mut [1, 20]), [(20, ALL)]);
        assert_eq!(of_printf(c"%-*.*s|", &mut [8, 3, 20]), [(20, 3)]);
        assert_eq!(of_printf(c"%.5s%.s", &mut [20, 30]), [(20, 5), (30, 0)]);
        assert_eq!(
            of_printf(c"%.*s", &mut [-1i32 as u32 as usize, 20]),
            [(20, ALL)]
        );
        assert_eq!(
            of_printf(c"%+08.3f%s%hhn", &mut [0, 20, 30]),
            [(20, ALL), (30, 1)]
        );
        assert_eq!(of_printf(c"%ls%lu%m%n", &mut [20, 5, 40]), [(40, 4)]);
        assert_eq!(of_printf(c"%2$s", &mut [20, 30]), []);
        assert_eq!(of_printf(c"100%", &mut []), []);
    }

    #[test]
    fn a_long_double_is_aligned() {
        #[repr(align(16))]
        struct Aligned([usize; 5]);
        let mut words = Aligned([7, 0, 0, 0, 20]);
        assert_eq!(of_printf(c"%d%Lf%s", &mut words.0), [(20, usize::MAX)]);
    }

    #[test]
    fn scanf_stores_what_it_assigned() {
        let mut words = [10, 20, 30, 40];
        assert_eq!(of_scanf(c"%d %s", 2, &mut words), [(10, 4), (20, 0)]);
        assert_eq!(of_scanf(c"%d %s", 1, &mut words), [(10, 4)]);
        assert_eq!(
            of_scanf(c"%*d %hd%n%lf", 2, &mut words),
            [(10, 2), (20, 4), (30, 8)]
        );
        assert_eq!(
            of_scanf(c"%[]a-z]%5c%ms", 3, &mut words),
            [(10, 0), (20, 5), (30, 8)]
        );
        assert_eq!(of_scanf(c"%[^]]%Lf", 2, &mut words), [(10, 0), (20, 16)]);
        assert_eq!(of_scanf(c"%d", -1, &mut words), []);
    }
}
