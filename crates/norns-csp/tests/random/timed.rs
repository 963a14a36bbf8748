//! Timed sections of random scripts against the reference: each process is written twice, as the
//! text of a section, and as the tree over tocks that the section stands for (the table in
//! `src/eval/timed.rs`).

use std::rc::Rc;

use norns_csp::check::Options;
use norns_csp::script::{Answer, Script};

use crate::reference::{self, Graph, Tree};
use crate::{MODELS, Random, letter, seeds};

const NAMES: [&str; 3] = ["a", "b", "tock"];
const TOCK: u8 = 2;
const TIME: u8 = 1 << TOCK;

const LENGTH: usize = 5;
const STATES: usize = 200;

/// A process as text and as tree.
type Both = (String, Rc<Tree>);

struct Section {
    random: Random,
    // How many tocks pass after `a` and after `b`.
    durations: [usize; 2],
    // The bodies of calls: first those of the definitions that the section has.
    bodies: Vec<Rc<Tree>>,
}

const DEFINITIONS: usize = 2;

impl Section {
    fn new(seed: u64) -> Section {
        let mut random = Random::new(seed);
        Section {
            durations: [random.below(3), random.below(2)],
            random,
            bodies: (0..DEFINITIONS).map(|_| Rc::new(Tree::Stop)).collect(),
        }
    }

    /// A process that may let time pass for ever before it does what `then` says.
    fn waiting(&mut self, then: impl FnOnce(Rc<Tree>) -> Tree) -> Rc<Tree> {
        let call = Rc::new(Tree::Call(self.bodies.len()));
        let tock = Rc::new(Tree::Prefix(TOCK, call.clone()));
        self.bodies.push(Rc::new(then(tock)));
        call
    }

    fn stop(&mut self) -> Rc<Tree> {
        self.waiting(|tock| Tree::External(tock, Rc::new(Tree::Stop)))
    }

    fn skip(&mut self) -> Rc<Tree> {
        self.waiting(|tock| Tree::External(tock, Rc::new(Tree::Skip)))
    }

    fn tocks(count: usize, then: Rc<Tree>) -> Rc<Tree> {
        (0..count).fold(then, |then, _| Rc::new(Tree::Prefix(TOCK, then)))
    }

    fn prefix(&mut self, then: Both) -> Both {
        let event = self.random.below(2);
        let after = Self::tocks(self.durations[event], then.1);
        let first = Rc::new(Tree::Prefix(event as u8, after));
        let tree = self.waiting(|tock| Tree::External(tock, first));
        (format!("({} -> {})", NAMES[event], then.0), tree)
    }

    /// Events other than tock, as text and as set.
    fn events(&mut self) -> (String, u8) {
        let set = self.random.below(4) as u8;
        let names: Vec<&str> = (0..2)
            .filter(|event| set >> event & 1 == 1)
            .map(|event| NAMES[event])
            .collect();
        (format!("{{{}}}", names.join(",")), set)
    }

    /// A guarded body of a definition.
    fn body(&mut self, depth: usize) -> Both {
        if depth > 0 && self.random.below(2) == 0 {
            let (l, r) = (self.body(depth - 1), self.body(depth - 1));
            let tree = Tree::SyncExternal(l.1, TIME, r.1);
            return (format!("({} [] {})", l.0, r.0), Rc::new(tree));
        }
        let call = self.random.below(DEFINITIONS);
        self.prefix((format!("D{call}"), Rc::new(Tree::Call(call))))
    }

    fn process(&mut self, depth: usize) -> Both {
        if depth == 0 {
            return match self.random.below(6) {
                0 => ("STOP".into(), self.stop()),
                1 => ("SKIP".into(), self.skip()),
                2 => {
                    let time = self.random.below(3);
                    let skip = self.skip();
                    (format!("WAIT({time})"), Self::tocks(time, skip))
                }
                3 => {
                    let skip = self.skip();
                    self.prefix(("SKIP".into(), skip))
                }
                _ => {
                    let call = self.random.below(DEFINITIONS);
                    (format!("D{call}"), Rc::new(Tree::Call(call)))
                }
            };
        }
        let (l, left) = self.process(depth - 1);
        let which = self.random.below(14);
        match which {
            0 | 1 => return self.prefix((l, left)),
            2 => {
                let (events, set) = self.events();
                return (format!("({l} \\ {events})"), Rc::new(Tree::Hide(left, set)));
            }
            3 => {
                let tree = Tree::Prioritised(left, vec![0, TIME]);
                return (format!("timed_priority({l})"), Rc::new(tree));
            }
            4 => return (format!("(false & {l})"), self.stop()),
            _ => {}
        }
        let (r, right) = self.process(depth - 1);
        let (text, tree) = match which {
            5 | 6 => ("[]".into(), Tree::SyncExternal(left, TIME, right)),
            7 => ("|~|".into(), Tree::Internal(left, right)),
            8 => (";".into(), Tree::Sequence(left, right)),
            9 => ("|||".into(), Tree::Parallel(left, TIME, right)),
            10 => {
                let (events, set) = self.events();
                let tree = Tree::Parallel(left, set | TIME, right);
                (format!("[|{events}|]"), tree)
            }
            11 => {
                let ((a, own), (b, other)) = (self.events(), self.events());
                let tree = Tree::Alphabetised(left, own | TIME, other | TIME, right);
                (format!("[{a}||{b}]"), tree)
            }
            12 => ("/\\".into(), Tree::SyncInterrupt(left, TIME, right)),
            _ => {
                let (events, set) = self.events();
                (format!("[|{events}|>"), Tree::Exception(left, set, right))
            }
        };
        (format!("({l} {text} {r})"), Rc::new(tree))
    }
}

#[test]
fn timed_sections_agree_with_the_reference() {
    let (mut compared, mut held) = (0, 0);
    for seed in seeds(600) {
        let mut section = Section::new(seed);
        let mut text = String::new();
        for definition in 0..DEFINITIONS {
            let (body, tree) = section.body(1);
            section.bodies[definition] = tree;
            text += &format!("  D{definition} = {body}\n");
        }
        let depth = 1 + section.random.below(2);
        let (spec, spec_tree) = section.process(depth);
        let (other, other_tree) = section.process(depth);
        // Related often enough that many refinements hold.
        let (implementation, tree) = match section.random.below(3) {
            0 => (other, other_tree),
            1 => (spec.clone(), spec_tree.clone()),
            _ => {
                let tree = Tree::SyncInterrupt(spec_tree.clone(), TIME, section.stop());
                (format!("({spec} /\\ STOP)"), Rc::new(tree))
            }
        };
        let [a, b] = section.durations;
        let text = format!(
            "channel a, b, tock\nf(a) = {a}\nf(_) = {b}\nTimed(f) {{\n{text}  P = {spec}\n  Q = {implementation}\n}}\n\
             assert P [T= Q\nassert P [F= Q\nassert P [FD= Q\n"
        );
        let graphs = [spec_tree, tree].map(|tree| Graph::new(&tree, &section.bodies, STATES));
        let [Some(s), Some(i)] = &graphs else {
            continue;
        };
        let mut script = Script::load("random", &text, &mut |_, _| Err("no files".into()))
            .unwrap_or_else(|error| panic!("seed {seed}\n{text}\n{}", error.render()));
        for (index, model) in MODELS.into_iter().enumerate() {
            let difference = reference::difference(letter(model), s, i, LENGTH);
            let options = Options {
                threads: 1,
                ..Options::default()
            };
            let (answer, _) = script
                .check(index, &options, &mut |_| {})
                .unwrap_or_else(|error| panic!("seed {seed}\n{text}\n{}", error.render()));
            let context = || format!("seed {seed}, {model:?}\n{text}\n{difference:?}");
            match (&difference, &answer) {
                (Some(_), Answer::Holds) => panic!("a violation was missed: {}", context()),
                // The engine may see further than the bound.
                (None, Answer::Fails(Some(example))) => {
                    assert!(example.trace().len() > LENGTH, "{}", context());
                }
                (_, Answer::Holds | Answer::Fails(_)) => {}
                (_, Answer::Undecided(why)) => panic!("undecided: {why}: {}", context()),
            }
            compared += 1;
            held += usize::from(matches!(answer, Answer::Holds));
        }
    }
    println!("{compared} refinements of timed processes compared, {held} hold");
    assert!(
        std::env::var_os("SEED").is_some() || (held > 100 && compared - held > 100),
        "{compared} compared, {held} hold"
    );
}
