//! Loading the schedule that a replay enforces: a file that stays mapped for good.

use norns_control::{Module, Schedule};

use crate::schedule::{Record, Step, parse};
use crate::sys;

/// The schedule in this file; `None` when it cannot be read or is not understood.
pub fn load(path: &[u8]) -> Option<Schedule<'static>> {
    let text = read_file(path)?;
    let (mut step_count, mut name_count, mut hunt_count, mut module_count) = (0, 0, 0, 0);
    let counted = parse(text, |record| {
        step_count += usize::from(matches!(record, Record::Step(_)));
        name_count += usize::from(matches!(record, Record::Thread(_)));
        hunt_count += usize::from(matches!(record, Record::Hunt(_)));
        module_count += usize::from(matches!(record, Record::Module { .. }));
    });
    counted.ok()?;
    let mut steps: Table<Step> = Table::new(step_count)?;
    let mut names: Table<&'static str> = Table::new(name_count)?;
    let mut hunts: Table<usize> = Table::new(hunt_count)?;
    let mut modules: Table<Module> = Table::new(module_count)?;
    let mut schedule = Schedule::empty();
    let mut hold_count = 0;
    let parsed = parse(text, |record| match record {
        Record::Thread(name) => names.push(name),
        Record::Step(step) => steps.push(step),
        Record::Hold(hold) => {
            if let Some(place) = schedule.holds.get_mut(hold_count) {
                *place = Some(hold);
                hold_count += 1;
            }
        }
        Record::Hunt(pc) => hunts.push(pc as usize),
        Record::Module { start, end, path } => modules.push(Module {
            start: start as usize,
            end: end as usize,
            path,
        }),
        Record::Pace(nanoseconds) => schedule.pace = nanoseconds as i64,
        Record::EventsOnly => schedule.events_only = true,
    });
    schedule.steps = steps.filled();
    schedule.names = names.filled();
    schedule.hunts = hunts.filled();
    schedule.modules = modules.filled();
    parsed.ok().map(|()| schedule)
}

/// An array that is filled once and then lives for ever.
struct Table<T: 'static> {
    start: *mut T,
    capacity: usize,
    length: usize,
}

impl<T: Copy> Table<T> {
    fn new(capacity: usize) -> Option<Self> {
        let start = sys::map_anonymous((capacity * size_of::<T>()).max(1)).cast::<T>();
        (!start.is_null()).then_some(Table {
            start,
            capacity,
            length: 0,
        })
    }

    fn push(&mut self, entry: T) {
        if self.length < self.capacity {
            // SAFETY: `new` mapped `capacity` entries at `start`, which only this table uses.
            unsafe { self.start.add(self.length).write(entry) };
            self.length += 1;
        }
    }

    fn filled(self) -> &'static [T] {
        // SAFETY: `push` has written so many entries of a mapping that stays and that nothing
        // changes from here on, since `self` is gone.
        unsafe { core::slice::from_raw_parts(self.start, self.length) }
    }
}

/// A whole file, mapped for good.
fn read_file(path: &[u8]) -> Option<&'static [u8]> {
    let mut name = [0u8; 4096];
    if path.len() >= name.len() {
        return None;
    }
    for (to, from) in name.iter_mut().zip(path) {
        *to = *from;
    }
    let file = sys::open(&name[..=path.len()], 0);
    if file < 0 {
        return None;
    }
    let mut capacity = 1 << 16;
    let mut text = sys::map_anonymous(capacity);
    let mut length = 0;
    while !text.is_null() {
        if length == capacity {
            let larger = sys::map_anonymous(capacity * 2);
            if larger.is_null() {
                return None;
            }
            for at in 0..length {
                // SAFETY: both mappings are longer than `length`; volatile, so that it does not
                // become a call of the `memcpy` that this library interposes.
                unsafe { larger.add(at).write_volatile(*text.add(at)) };
            }
            text = larger;
            capacity *= 2;
        }
        // SAFETY: the mapping has `capacity` bytes that no other code knows.
        let room = unsafe { core::slice::from_raw_parts_mut(text.add(length), capacity - length) };
        let got = sys::read(file, room);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    sys::close(file);
    // SAFETY: `length` bytes were read, and the mapping stays.
    (!text.is_null()).then(|| unsafe { core::slice::from_raw_parts(text, length) })
}
