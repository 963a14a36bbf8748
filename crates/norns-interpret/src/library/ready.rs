//! Waiting for several descriptors: `poll`, `select`, `epoll`.

use super::descriptor::{EBADF, EINVAL};
use super::{Call, Done, Flow, Model, int};
use crate::files::{Direction, Open, Socket, Watched};
use crate::machine::{Machine, Stop, give_up};
use crate::state::Resume;
use crate::synchronisation::Wait;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
/// These are the same for `poll` and `epoll`.
const IN: u32 = 1;
const OUT: u32 = 4;
const ERR: u32 = 8;
const HUP: u32 = 16;
const INVALID: u32 = 32;
const ONCE: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "poll" => poll,
        "select" => select,
        "epoll_create" | "epoll_create1" => |call| {
            let files = call.machine.state.files_mut();
            int(files.add(Open::Watch(Vec::new())) as i32)
        },
        "epoll_ctl" => change_watch,
        "epoll_wait" => watch,
        _ => return None,
    })
}

impl Machine<'_> {
    /// What of some events a description is ready for.
    fn events_of(&self, description: usize, wanted: u32) -> u32 {
        let thread = self.state.current;
        let mut found = 0;
        if wanted & IN != 0 && self.is_ready(thread, description, Direction::Read) {
            found |= IN;
        }
        if wanted & OUT != 0 && self.is_ready(thread, description, Direction::Write) {
            found |= OUT;
        }
        let files = &self.state.files;
        let is_left = files
            .pipe_from(description)
            .is_some_and(|pipe| !files.has_writers(pipe));
        let is_unread = files
            .pipe_to(description)
            .is_some_and(|pipe| !files.has_readers(pipe));
        match &files.described(description).open {
            Open::PipeRead(pipe) if is_left => {
                found |= HUP;
                if files.pipes[*pipe].bytes.is_empty() {
                    found &= !IN;
                }
            }
            Open::PipeWrite(_) if is_unread => found |= ERR,
            Open::Socket(Socket::Connected { .. }) if is_left && is_unread => found |= HUP,
            _ => {}
        }
        found
    }
}

impl Call<'_, '_> {
    /// The end of a wait that begins now, or the one of the wait that goes on.
    pub(super) fn until(&mut self, nanoseconds: u64) -> u64 {
        let until = self.machine.state.now().saturating_add(nanoseconds);
        let until = self.machine.deadline(until);
        *self.machine.thread().until.get_or_insert(until)
    }

    /// Whether the wait of this call ended at its deadline.
    fn is_late(&mut self) -> bool {
        let thread = self.machine.thread();
        let resume = std::mem::replace(&mut thread.resume, Resume::None);
        matches!(resume, Resume::Woken { timed_out: true })
    }

    /// Waits for descriptions; `milliseconds` as `poll` has them.
    fn wait_for_any(&mut self, wanted: Vec<(usize, Direction)>, milliseconds: i32) -> Done {
        let deadline = match u64::try_from(milliseconds) {
            Ok(milliseconds) => Some(self.until(milliseconds * 1_000_000)),
            Err(_) => None,
        };
        Ok(Flow::Wait(Wait::Ready(wanted), deadline))
    }
}

fn directions(description: usize, events: u32) -> impl Iterator<Item = (usize, Direction)> {
    let reads = (events & (IN | HUP) != 0).then_some((description, Direction::Read));
    let writes = (events & OUT != 0).then_some((description, Direction::Write));
    reads.into_iter().chain(writes)
}

/// Each `struct pollfd` has the descriptor, what is wanted and what was found.
fn poll(call: &mut Call<'_, '_>) -> Done {
    let (list, count, patience) = (call.argument(0), call.argument(1), call.int(2));
    let is_late = call.is_late();
    let (mut ready, mut wanted) = (0, Vec::new());
    let mut found = Vec::new();
    for at in 0..count {
        let entry = list + 8 * at;
        let descriptor = call.load(entry, 4)? as u32 as i32;
        let events = call.load(entry + 4, 2)? as u32;
        let Ok(descriptor) = usize::try_from(descriptor) else {
            call.store(entry + 6, 2, 0)?;
            continue;
        };
        let Some(description) = call.machine.state.files.description(descriptor) else {
            call.store(entry + 6, 2, INVALID.into())?;
            ready += 1;
            continue;
        };
        let events = events & (IN | OUT);
        let seen = call.machine.events_of(description, events);
        call.store(entry + 6, 2, seen.into())?;
        if seen != 0 {
            ready += 1;
            found.push(description);
        }
        wanted.extend(directions(description, events));
    }
    if ready == 0 && !is_late && patience != 0 {
        return call.wait_for_any(wanted, patience);
    }
    for description in found {
        call.machine.come_after(description);
    }
    Ok(Flow::Yield(ready))
}

/// The descriptors that one of `select`'s sets names.
fn members(call: &Call<'_, '_>, index: usize) -> Result<Vec<usize>, Stop> {
    let (count, set) = (call.int(0).clamp(0, 1024) as usize, call.argument(index));
    let mut found = Vec::new();
    if set != 0 {
        for number in 0..count {
            let byte = call.load(set + number as u64 / 8, 1)?;
            if byte >> (number % 8) & 1 == 1 {
                found.push(number);
            }
        }
    }
    Ok(found)
}

fn select(call: &mut Call<'_, '_>) -> Done {
    let is_late = call.is_late();
    let sets = [
        (1, members(call, 1)?, IN, Direction::Read),
        (2, members(call, 2)?, OUT, Direction::Write),
    ];
    if !members(call, 3)?.is_empty() {
        return give_up("select of exceptional conditions");
    }
    let (mut ready, mut wanted) = (Vec::new(), Vec::new());
    for (index, set, _, direction) in &sets {
        for &descriptor in set {
            let Some(description) = call.machine.state.files.description(descriptor) else {
                return call.fail(EBADF);
            };
            wanted.push((description, *direction));
            let thread = call.machine.state.current;
            if call.machine.is_ready(thread, description, *direction) {
                ready.push((*index, descriptor, description));
            }
        }
    }
    if ready.is_empty() && !is_late {
        let patience = match call.argument(4) {
            0 => -1,
            time => {
                let (seconds, micro) = (call.load(time, 8)?, call.load(time + 8, 8)?);
                (seconds * 1000 + micro.div_ceil(1000)) as i32
            }
        };
        if patience != 0 {
            return call.wait_for_any(wanted, patience);
        }
    }
    for (index, set, ..) in &sets {
        for &descriptor in set {
            let is_ready = ready
                .iter()
                .any(|one| (one.0, one.1) == (*index, descriptor));
            if !is_ready {
                let at = call.argument(*index) + descriptor as u64 / 8;
                let byte = call.load(at, 1)?;
                call.store(at, 1, byte & !(1 << (descriptor % 8)))?;
            }
        }
    }
    for &(_, _, description) in &ready {
        call.machine.come_after(description);
    }
    Ok(Flow::Yield(ready.len() as u64))
}

fn change_watch(call: &mut Call<'_, '_>) -> Done {
    let (watch, operation, descriptor) = (call.int(0) as usize, call.int(1), call.int(2) as usize);
    let files = &call.machine.state.files;
    let (Some(own), Some(description)) = (files.description(watch), files.description(descriptor))
    else {
        return call.fail(EBADF);
    };
    let (events, data) = match operation {
        2 => (0, 0),
        // The structure is packed.
        _ => (
            call.load(call.argument(3), 4)? as u32,
            call.load(call.argument(3) + 4, 8)?,
        ),
    };
    if events & EDGE != 0 {
        return give_up("epoll of changes (EPOLLET)");
    }
    call.machine.come_before(own);
    call.machine.state.effects += 1;
    let Some(Open::Watch(all)) = call.machine.state.files_mut().open_mut(watch) else {
        return call.fail(EINVAL);
    };
    let known = all.iter().position(|one| one.descriptor == descriptor);
    let new = Watched {
        descriptor,
        description,
        events,
        data,
    };
    match (operation, known) {
        (1, Some(_)) => return call.fail(EEXIST),
        (2 | 3, None) => return call.fail(ENOENT),
        (1, None) => all.push(new),
        (2, Some(at)) => {
            all.remove(at);
        }
        (3, Some(at)) => all[at] = new,
        _ => return call.fail(EINVAL),
    }
    Ok(Flow::Yield(0))
}

fn watch(call: &mut Call<'_, '_>) -> Done {
    let (watch, to, most, patience) = (
        call.int(0) as usize,
        call.argument(1),
        call.int(2),
        call.int(3),
    );
    let is_late = call.is_late();
    let files = &call.machine.state.files;
    let Some(own) = files.description(watch) else {
        return call.fail(EBADF);
    };
    let Open::Watch(all) = files.described(own).open.clone() else {
        return call.fail(EINVAL);
    };
    let mut found = Vec::new();
    for one in all {
        let seen = call.machine.events_of(one.description, one.events);
        if one.events & (IN | OUT) != 0 && seen != 0 && (found.len() as i32) < most {
            found.push((one, seen));
        }
    }
    if found.is_empty() && !is_late && patience != 0 {
        return call.wait_for_any(vec![(own, Direction::Read)], patience);
    }
    call.machine.come_after(own);
    for (at, (one, seen)) in (0..).zip(&found) {
        call.machine.come_after(one.description);
        call.store(to + 12 * at, 4, (*seen).into())?;
        call.store(to + 12 * at + 4, 8, one.data)?;
        if one.events & ONCE != 0
            && let Some(Open::Watch(all)) = call.machine.state.files_mut().open_mut(watch)
        {
            let same = all
                .iter_mut()
                .filter(|other| other.descriptor == one.descriptor);
            same.for_each(|other| other.events = 0);
        }
    }
    Ok(Flow::Yield(found.len() as u64))
}
