//! What could race or deadlock in a program, from its code alone.
//!
//! Each analysis is a file of its own: calling contexts (`instance`), points-to with the call graph
//! (`points_to`), access paths (`symbol`), threads that run in parallel (`parallel`, `join`), locks held
//! (`lock_set`), rights and orders that are no locks (`token`, `owner`, `hand_over`), and then what they lead to
//! (`race`).
#![forbid(unsafe_code)]

mod access;
mod acquisition;
mod candidate;
mod code;
mod condition;
mod dataflow;
mod deadlock;
mod describe;
mod external;
mod flow;
mod fresh;
mod hand_over;
mod instance;
mod join;
mod lock_set;
mod may_held;
mod misuse;
mod object;
mod own;
mod owner;
mod parallel;
mod points_to;
mod race;
mod signal;
mod slice;
mod structure;
mod symbol;
#[cfg(test)]
mod tests;
mod threads;
mod token;
mod turns;

pub use candidate::{Candidate, CandidateKind, Place, SourcePlace};
pub use describe::is_of_the_system;
pub use slice::{Memory, Object, Slice, Sliced, is_same_file, slice};

use norns_ir::{Omission, Program};

/// What a scan says of a program.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The likeliest first.
    pub candidates: Vec<Candidate>,
    pub not_analysed: Vec<NotAnalysed>,
}

/// Something that a scan left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotAnalysed {
    /// A function without a body that no summary describes.
    Function(String),
    /// Inline assembler, at so many places.
    Assembler(usize),
    /// An object with so many accesses that not all pairs were looked at.
    Pairs(String),
    /// Accesses at so many places, through pointers that could point to almost anything.
    Wide(usize),
    /// Not all cycles of locks were looked for.
    Cycles,
    /// Something that the reader of the program met and did not understand.
    Read(String),
    /// A library: who calls its functions is not known.
    NoMain,
}

#[must_use]
pub fn scan(program: &Program) -> Scan {
    let code = code::Code::new(program);
    let mut symbols = symbol::Symbols::new(&code);
    let parallel = parallel::Parallel::new(&code, &mut symbols);
    let locks = lock_set::LockSets::new(&code, &mut symbols);
    let hand_over = hand_over::HandOver::new(&code, &mut symbols, &parallel, &locks);
    let mut races = race::Races::new(&code, &mut symbols, &parallel, &locks, &hand_over);
    let mut candidates = races.candidates();
    let cut_off = std::mem::take(&mut races.cut_off);
    let wide = races.wide.len();
    let acquisitions = acquisition::acquisitions(&code, &mut symbols, &parallel, &locks);
    let blocking = acquisition::blocking(&code, &mut symbols, &parallel, &locks);
    let mut deadlocks = deadlock::Deadlocks {
        code: &code,
        symbols: &symbols,
        parallel: &parallel,
        locks: &locks,
        hand_over: &hand_over,
        is_cut_off: false,
    };
    candidates.extend(deadlocks.candidates(&acquisitions, &blocking));
    let is_cut_off = deadlocks.is_cut_off;
    let misuse = misuse::Misuse::new(&code, &symbols, &parallel, &locks);
    candidates.extend(misuse.candidates(&acquisitions, &blocking));
    candidates.sort_by(|a, b| {
        b.rank
            .cmp(&a.rank)
            .then_with(|| (&a.object, &a.places).cmp(&(&b.object, &b.places)))
    });
    let mut not_analysed: Vec<NotAnalysed> = Vec::new();
    let unknown = code.points_to.unknown.keys();
    not_analysed
        .extend(unknown.map(|&id| NotAnalysed::Function(program.function(id).name.clone())));
    if !code.points_to.assembler.is_empty() {
        not_analysed.push(NotAnalysed::Assembler(code.points_to.assembler.len()));
    }
    if wide > 0 {
        not_analysed.push(NotAnalysed::Wide(wide));
    }
    not_analysed.extend(cut_off.into_iter().map(NotAnalysed::Pairs));
    if is_cut_off {
        not_analysed.push(NotAnalysed::Cycles);
    }
    let omissions = program.omissions.iter();
    not_analysed.extend(omissions.map(|omission| {
        let Omission {
            module,
            what,
            count,
        } = omission;
        NotAnalysed::Read(match count {
            1 => format!("{module}: {what}"),
            _ => format!("{module}: {what} ({count} times)"),
        })
    }));
    if program
        .functions
        .iter()
        .all(|function| function.name != "main" || function.is_declaration())
    {
        not_analysed.push(NotAnalysed::NoMain);
    }
    not_analysed.sort();
    not_analysed.dedup();
    Scan {
        candidates,
        not_analysed,
    }
}
