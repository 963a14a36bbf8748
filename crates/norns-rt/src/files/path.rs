//! Paths of files, put together without allocation.

use core::ffi::c_char;
use core::mem::MaybeUninit;

use crate::sys;

/// Longer paths are left alone.
const MOST: usize = 1024;

/// A path that ends with a zero byte.
pub struct Path {
    /// The first `length` bytes are initialised, and one more with the zero.
    bytes: MaybeUninit<[u8; MOST]>,
    length: usize,
    /// Whether everything that was added had room.
    fits: bool,
}

impl Path {
    pub fn new() -> Self {
        let mut path = Self {
            bytes: MaybeUninit::uninit(),
            length: 0,
            fits: true,
        };
        path.clear();
        path
    }

    fn start(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    fn set(&mut self, at: usize, byte: u8) {
        if at < MOST {
            // SAFETY: within the array.
            unsafe { self.start().add(at).write(byte) };
        }
    }

    pub fn clear(&mut self) {
        self.length = 0;
        self.fits = true;
        self.set(0, 0);
    }

    pub fn push(&mut self, more: &[u8]) {
        if self.length + more.len() >= MOST {
            self.fits = false;
            return;
        }
        for byte in more {
            self.set(self.length, *byte);
            self.length += 1;
        }
        self.set(self.length, 0);
    }

    pub fn push_number(&mut self, number: i32) {
        let mut power = 1_000_000_000;
        while power > 0 {
            let digit = number.max(0) / power;
            if digit > 0 || power == 1 {
                self.push(&[b'0' + (digit % 10) as u8]);
            }
            power /= 10;
        }
    }

    /// Keeps the first `length` bytes only.
    pub fn cut(&mut self, length: usize) {
        self.length = length.min(self.length);
        self.set(self.length, 0);
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `push` and `read_link` have initialised so many bytes.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// For a function that changes bytes of the path, but neither its length nor the zero.
    pub fn as_mut_ptr(&mut self) -> *mut c_char {
        self.start().cast()
    }

    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Whether it is this file or folder, or something below it.
    pub fn is_below(&self, folder: &[u8]) -> bool {
        let own = self.bytes();
        own.len() >= folder.len()
            && own.iter().zip(folder).all(|(a, b)| a == b)
            && own.get(folder.len()).is_none_or(|byte| *byte == b'/')
    }

    /// Becomes the target of a symbolic link; false if `link` is none.
    pub fn read_link(&mut self, link: &Path) -> bool {
        const READLINK: usize = 89;
        let (from, to) = (link.as_ptr() as usize, self.start() as usize);
        // SAFETY: `link` ends with a zero byte, and the kernel writes within `bytes`.
        let length = unsafe { sys::call(READLINK, from, to, MOST - 1) };
        self.length = length.max(0) as usize;
        self.fits = self.length < MOST - 1;
        self.set(self.length, 0);
        length >= 0
    }

    /// Calls `act` with every folder on the way below the first `from` bytes, then with the whole
    /// path, until it returns something.
    pub fn each_part<R>(
        &mut self,
        from: usize,
        mut act: impl FnMut(&Path, bool) -> Option<R>,
    ) -> Option<R> {
        let length = self.length;
        for at in from + 1..=length {
            if at < length && self.bytes()[at] != b'/' {
                continue;
            }
            self.cut(at);
            let result = act(self, at == length);
            self.length = length;
            self.set(at, if at < length { b'/' } else { 0 });
            if result.is_some() {
                return result;
            }
        }
        None
    }
}
