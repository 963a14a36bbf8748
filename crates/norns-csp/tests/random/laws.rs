//! The laws of CSP (Roscoe 2010, chapters 2 to 7: units, zeros,
//! symmetry, associativity, distribution, step laws) on random processes, in all models.

use norns_csp::Reduction;
use norns_csp::check::{Model, Question, Verdict};
use norns_csp::event::{EventId, EventSet, Renaming};
use norns_csp::process::ProcId;

use crate::reference::{Graph, Tree};
use crate::{MODELS, Random, Subject, seeds, tree};

struct Law<'a> {
    s: &'a mut Subject,
    seed: u64,
}

impl Law<'_> {
    fn refines(&mut self, model: Model, spec: ProcId, implementation: ProcId) -> bool {
        let question = Question::Refines {
            model,
            spec,
            implementation,
        };
        self.s.ask(&question, Reduction::None) == Verdict::Holds
    }

    fn equal(&mut self, name: &str, left: ProcId, right: ProcId) {
        for model in MODELS {
            let both = self.refines(model, left, right) && self.refines(model, right, left);
            assert!(both, "seed {}: {name} in {model:?}", self.seed);
        }
    }

    fn refined(&mut self, name: &str, spec: ProcId, implementation: ProcId) {
        for model in MODELS {
            let holds = self.refines(model, spec, implementation);
            assert!(holds, "seed {}: {name} in {model:?}", self.seed);
        }
    }
}

#[test]
fn the_laws_of_csp_hold() {
    let mut tried = 0;
    for seed in seeds(400) {
        let mut r = Random::new(seed);
        let bodies: Vec<_> = (0..crate::CALLS).map(|_| crate::body(&mut r, 2)).collect();
        let trees: Vec<_> = (0..3).map(|_| tree(&mut r, 2)).collect();
        if trees
            .iter()
            .any(|t: &std::rc::Rc<Tree>| Graph::new(t, &bodies, 15).is_none())
        {
            continue;
        }
        tried += 1;
        let (x, y) = (r.set(), r.set());
        let mut subject = Subject::new(&bodies);
        let [p, q, t]: [ProcId; 3] = trees
            .iter()
            .map(|t| subject.build(t))
            .collect::<Vec<_>>()
            .try_into()
            .expect("three");
        let (set, other) = (subject.set(x), subject.set(y));
        let both = subject.set(x | y);
        let events: Vec<EventId> = ["a", "b", "c"].map(|n| subject.p.events.intern(n)).into();
        let (a, b) = (events[r.below(3)], events[r.below(3)]);
        let mut law = Law {
            s: &mut subject,
            seed,
        };
        macro_rules! a {
            ($e:expr) => {{
                let build: &mut norns_csp::process::Processes = &mut law.s.p;
                #[allow(clippy::redundant_closure_call)]
                ($e)(build)
            }};
        }
        type P = norns_csp::process::Processes;
        let (stop, skip, div) = (
            a!(|c: &mut P| c.stop()),
            a!(|c: &mut P| c.skip()),
            a!(|c: &mut P| c.div()),
        );
        let ext = |law: &mut Law, l: &[ProcId]| law.s.p.external_choice(l.to_vec());
        let int = |law: &mut Law, l: &[ProcId]| law.s.p.internal_choice(l.to_vec());
        let par =
            |law: &mut Law, l: &[ProcId], s: &EventSet| law.s.p.parallel(l.to_vec(), s.clone());
        let inter = |law: &mut Law, l: &[ProcId]| law.s.p.interleave(l.to_vec());
        let seq = |law: &mut Law, l, r| law.s.p.sequence(l, r);
        let pre = |law: &mut Law, e, p| law.s.p.prefix(e, p);
        let hide = |law: &mut Law, p, s: &EventSet| law.s.p.hide(p, s.clone());

        let (l, m) = (ext(&mut law, &[p, p]), p);
        law.equal("P [] P = P", l, m);
        let l = ext(&mut law, &[p, stop]);
        law.equal("P [] STOP = P", l, p);
        let (l, m) = (ext(&mut law, &[p, q]), ext(&mut law, &[q, p]));
        law.equal("P [] Q = Q [] P", l, m);
        let (pq, qt) = (ext(&mut law, &[p, q]), ext(&mut law, &[q, t]));
        let (l, m) = (ext(&mut law, &[pq, t]), ext(&mut law, &[p, qt]));
        law.equal("[] is associative", l, m);
        let flat = ext(&mut law, &[p, q, t]);
        law.equal("[] of three", l, flat);
        let l = int(&mut law, &[p, p]);
        law.equal("P |~| P = P", l, p);
        let pq = int(&mut law, &[p, q]);
        law.refined("P |~| Q [= P", pq, p);
        let qt = int(&mut law, &[q, t]);
        let l = ext(&mut law, &[p, qt]);
        let (pe, te) = (ext(&mut law, &[p, q]), ext(&mut law, &[p, t]));
        let m = int(&mut law, &[pe, te]);
        law.equal("[] distributes over |~|", l, m);
        let l = par(&mut law, &[p, qt], &set);
        let (pe, te) = (par(&mut law, &[p, q], &set), par(&mut law, &[p, t], &set));
        let m = int(&mut law, &[pe, te]);
        law.equal("[|X|] distributes over |~|", l, m);
        let (l, m) = (par(&mut law, &[p, q], &set), par(&mut law, &[q, p], &set));
        law.equal("[|X|] is symmetric", l, m);
        let (pq, qt) = (par(&mut law, &[p, q], &set), par(&mut law, &[q, t], &set));
        let (l, m) = (par(&mut law, &[pq, t], &set), par(&mut law, &[p, qt], &set));
        law.equal("[|X|] is associative", l, m);
        let flat = par(&mut law, &[p, q, t], &set);
        law.equal("[|X|] of three", l, flat);
        let l = inter(&mut law, &[p, skip]);
        law.equal("P ||| SKIP = P", l, p);
        let l = seq(&mut law, skip, p);
        law.equal("SKIP ; P = P", l, p);
        let l = seq(&mut law, p, skip);
        law.equal("P ; SKIP = P", l, p);
        let l = seq(&mut law, stop, p);
        law.equal("STOP ; P = STOP", l, stop);
        let (pq, qt) = (seq(&mut law, p, q), seq(&mut law, q, t));
        let (l, m) = (seq(&mut law, pq, t), seq(&mut law, p, qt));
        law.equal("; is associative", l, m);
        let ap = pre(&mut law, a, p);
        let l = seq(&mut law, ap, q);
        let pq = seq(&mut law, p, q);
        let m = pre(&mut law, a, pq);
        law.equal("(a -> P) ; Q = a -> (P ; Q)", l, m);
        let l = hide(&mut law, ap, &set);
        let ph = hide(&mut law, p, &set);
        let m = if set.contains(a) {
            ph
        } else {
            pre(&mut law, a, ph)
        };
        law.equal("step law of hiding", l, m);
        let l = hide(&mut law, ph, &other);
        let m = hide(&mut law, p, &both);
        law.equal("P \\ X \\ Y = P \\ (X u Y)", l, m);
        let bq = pre(&mut law, b, q);
        let l = par(&mut law, &[ap, bq], &set);
        let m = match (set.contains(a), set.contains(b)) {
            (true, true) if a == b => {
                let pq = par(&mut law, &[p, q], &set);
                pre(&mut law, a, pq)
            }
            (true, true) => stop,
            (true, false) => {
                let n = par(&mut law, &[ap, q], &set);
                pre(&mut law, b, n)
            }
            (false, true) => {
                let n = par(&mut law, &[p, bq], &set);
                pre(&mut law, a, n)
            }
            (false, false) => {
                let (n, o) = (par(&mut law, &[p, bq], &set), par(&mut law, &[ap, q], &set));
                let (n, o) = (pre(&mut law, a, n), pre(&mut law, b, o));
                ext(&mut law, &[n, o])
            }
        };
        law.equal("step law of [|X|]", l, m);
        let l = a!(|c: &mut P| c.interrupt(p, stop));
        law.equal("P /\\ STOP = P", l, p);
        let l = a!(|c: &mut P| c.interrupt(stop, p));
        law.equal("STOP /\\ P = P", l, p);
        let l = a!(|c: &mut P| c.interrupt(ap, bq));
        let m = {
            let inner = a!(|c: &mut P| c.interrupt(p, bq));
            let n = pre(&mut law, a, inner);
            ext(&mut law, &[n, bq])
        };
        law.equal("step law of /\\", l, m);
        let l = a!(|c: &mut P| c.exception(ap, set.clone(), q));
        let m = if set.contains(a) {
            pre(&mut law, a, q)
        } else {
            let inner = a!(|c: &mut P| c.exception(p, set.clone(), q));
            pre(&mut law, a, inner)
        };
        law.equal("step law of [|X|>", l, m);
        let l = a!(|c: &mut P| c.sliding(p, q));
        let m = {
            let pq = ext(&mut law, &[p, q]);
            int(&mut law, &[pq, q])
        };
        law.equal("P [> Q = (P [] Q) |~| Q", l, m);
        let l = a!(|c: &mut P| c.rename(ap, Renaming::new([(a, b)])));
        let m = {
            let inner = a!(|c: &mut P| c.rename(p, Renaming::new([(a, b)])));
            pre(&mut law, b, inner)
        };
        law.equal("step law of renaming", l, m);
        let l = a!(|c: &mut P| c.sync_choice(vec![p, q], EventSet::empty()));
        let m = ext(&mut law, &[p, q]);
        law.equal("P [+{}+] Q = P [] Q", l, m);
        let l = a!(|c: &mut P| c.sync_interrupt(p, EventSet::empty(), q));
        let m = a!(|c: &mut P| c.interrupt(p, q));
        law.equal("P /+{}+\\ Q = P /\\ Q", l, m);
        // Divergence is at the bottom, and strict.
        law.s.p.stop();
        let question = Question::Refines {
            model: Model::FailuresDivergences,
            spec: div,
            implementation: p,
        };
        assert_eq!(
            law.s.ask(&question, Reduction::None),
            Verdict::Holds,
            "DIV [FD= P"
        );
    }
    assert!(tried > 0, "no case was small enough");
    println!("{tried} triples of processes");
}
