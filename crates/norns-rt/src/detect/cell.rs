//! One access of the past, as eight bytes of shadow memory.
//!
//! The assembly in `fast` knows the layout too.

use super::sites::Site;

/// One access. From the lowest bit: site 22, mask 8, write 1, plain 1, clock 22, slot 10.
/// 0 stands for no access, since clocks begin at 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cell(pub u64);

pub const SITE_BITS: u32 = 22;
pub const MASK_SHIFT: u32 = 22;
pub const WRITE: u64 = 1 << 30;
pub const PLAIN: u64 = 1 << 31;
const CLOCK_SHIFT: u32 = 32;
pub const CLOCK_BITS: u32 = 22;
const SLOT_SHIFT: u32 = 54;
const SITE: u64 = (1 << SITE_BITS) - 1;
pub const MASK: u64 = 0xff << MASK_SHIFT;
const EPOCH: u64 = u64::MAX << CLOCK_SHIFT;
// A link has all slot and clock bits set, which no epoch has: `Thread` leaves the last clock unused.
// The other bits are the index of a block.
const LINK: u64 = EPOCH;

impl Cell {
    pub const NONE: Self = Self(0);

    #[inline]
    pub fn new(epoch: Epoch, mask: u8, kind: Kind, site: Site) -> Self {
        Self(
            u64::from(epoch.0) << CLOCK_SHIFT
                | u64::from(mask) << MASK_SHIFT
                | kind.bits()
                | u64::from(site.0),
        )
    }

    #[inline]
    pub fn slot(self) -> u16 {
        (self.0 >> SLOT_SHIFT) as u16
    }

    #[inline]
    pub fn clock(self) -> u32 {
        ((self.0 >> CLOCK_SHIFT) & ((1 << CLOCK_BITS) - 1)) as u32
    }

    pub fn mask(self) -> u8 {
        (self.0 >> MASK_SHIFT) as u8
    }

    pub fn kind(self) -> Kind {
        match (self.0 & PLAIN != 0, self.0 & WRITE != 0) {
            (true, false) => Kind::Read,
            (true, true) => Kind::Write,
            (false, false) => Kind::AtomicRead,
            (false, true) => Kind::AtomicWrite,
        }
    }

    pub fn site(self) -> Site {
        Site((self.0 & SITE) as u32)
    }

    #[inline]
    pub fn is_link(self) -> bool {
        self.0 & LINK == LINK
    }

    /// A link to this block of further cells.
    pub fn link(block: u32) -> Self {
        Self(LINK | u64::from(block))
    }

    /// The block that a link leads to.
    pub fn block(self) -> u32 {
        (self.0 & !LINK) as u32
    }

    /// Whether this access makes `new` redundant: the same thread, in the same epoch, already made
    /// an access of at least this kind to at least these bytes, wherever in the program.
    #[inline]
    pub fn covers(self, new: Cell) -> bool {
        // The epochs must be equal, and no mask, write or plain bit of `new` may be missing.
        let differ = self.0 ^ (new.0 | !EPOCH);
        differ & (EPOCH | new.0 & (MASK | WRITE | PLAIN)) == 0
    }

    /// Whether every access that races with `self`, in the bytes that both touch, also races with
    /// `new`, which comes later.
    #[inline]
    pub fn is_dominated_by(self, new: Cell) -> bool {
        self.0 & !new.0 & (WRITE | PLAIN) == 0
    }

    #[inline]
    pub fn conflicts_with(self, new: Cell) -> bool {
        self.0 & new.0 & MASK != 0 && (self.0 | new.0) & WRITE != 0 && (self.0 | new.0) & PLAIN != 0
    }
}

/// A thread slot and a clock, as the upper half of a cell; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    pub fn new(slot: u16, clock: u32) -> Self {
        Self(u32::from(slot) << CLOCK_BITS | clock)
    }
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
}

impl Kind {
    #[inline]
    fn bits(self) -> u64 {
        match self {
            Kind::Read => PLAIN,
            Kind::Write => PLAIN | WRITE,
            Kind::AtomicRead => 0,
            Kind::AtomicWrite => WRITE,
        }
    }
}
