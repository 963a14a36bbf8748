//! What is watched in which run, plans and reports as text, and a search whose runs are made elsewhere.

use std::convert::Infallible;
use std::path::Path;

use norns_replay::Ended;
use norns_sketch::tracking::{
    End, Means, Next, Plan, Reach, Report, Site, Trackable, Tracking, plans,
};
use norns_sketch::{Fact, Seen, Signs, Sketch, Slice};
use norns_trace::{
    Access, Event, Op, Place, PlaceId, SourcePlace, Thread, ThreadId, Trace, read_observations_of,
};
use norns_wire::tracking::{SiteOf, Target};

const WATCHPOINTS: Means = Means {
    watchpoints: true,
    sites: true,
};

fn global(address: u64) -> Vec<Target> {
    vec![Target::Global { address, size: 8 }]
}

fn statement(memory: &[u64]) -> Trackable {
    Trackable {
        file: "src/a.c".into(),
        line: memory[0] as u32,
        decides: false,
        memory: memory.iter().map(|&address| global(address)).collect(),
    }
}

fn site(of: SiteOf, line: u32) -> Site {
    let file = "a.c".into();
    Site { of, file, line }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let plan = Plan {
        watches: vec![
            global(0x4010),
            vec![
                Target::Allocated {
                    from: 0x1180,
                    to: 0x1190,
                    nth: 1,
                    offset: 8,
                    size: 8,
                },
                Target::Allocated {
                    from: 0x1200,
                    to: 0x1210,
                    nth: 1,
                    offset: 8,
                    size: 8,
                },
            ],
        ],
        sites: vec![site(SiteOf::Branch, 14), site(SiteOf::Access, 15)],
        most: 500,
    };
    assert_eq!(Plan::parse(&plan.text()), Some(plan.clone()));
    let later = plan.text().replace("norns-plan 2", "norns-plan 3");
    assert_eq!(Plan::parse(&later), None);
    let text = plan.text();
    for end in 0..text.len() {
        assert_eq!(Plan::parse(&text[..end]), None, "{}", &text[..end]);
    }
    assert_eq!(Plan::parse(&(text + "most 2\n")), None);
}

#[test]
fn the_closest_statements_are_watched_and_nothing_twice() {
    let slice = [statement(&[1]), statement(&[1, 2]), statement(&[3])];
    let found = plans(&slice, 2, WATCHPOINTS);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].watches, [global(1), global(2)]);
}

#[test]
fn more_memory_than_watchpoints_is_shared_over_runs() {
    let slice = [statement(&[1, 2, 3]), statement(&[4, 5, 6])];
    let found = plans(&slice, 2, WATCHPOINTS);
    let watched: Vec<usize> = found.iter().map(|plan| plan.watches.len()).collect();
    assert_eq!(watched, [4, 2]);
}

#[test]
fn a_report_is_read_as_it_is_written() {
    let report = Report::new(
        3,
        End::Signalled(11),
        "bye\n".into(),
        "norns-observations 1\n".into(),
    );
    assert_eq!(Report::parse(&report.text()).unwrap(), report);
    let later = report.text().replace("\"format\":1", "\"format\":2");
    let error = Report::parse(&later).unwrap_err().to_string();
    assert_eq!(error, "a report of format 2 is of another version of Norns");
    assert!(Report::parse("{\"format\":1}").is_err());
}

#[test]
fn branches_have_sites_and_accesses_only_without_watchpoints() {
    let mut slice = [statement(&[1]), statement(&[2]), statement(&[3])];
    slice[0].decides = true;
    let branch = site(SiteOf::Branch, 1);
    let sites = |means| plans(&slice, 2, means)[0].sites.clone();
    assert_eq!(sites(WATCHPOINTS), std::slice::from_ref(&branch));
    let refused = Means {
        watchpoints: false,
        ..WATCHPOINTS
    };
    let accesses = [site(SiteOf::Access, 1), site(SiteOf::Access, 2)];
    assert_eq!(sites(refused), [&[branch], &accesses[..]].concat());
    assert!(plans(&slice, 2, refused)[0].watches.is_empty());
    let neither = Means {
        sites: false,
        ..refused
    };
    assert_eq!(sites(neither), []);
}

/// A run in which thread 0 writes at line 20 and thread 1 reads at line 30, in this order or the other one,
/// as far as the plan watches that memory.
fn run(plan: &Plan, is_early: bool) -> Seen {
    let mut trace = Trace {
        accesses_ordered: true,
        places: vec![Place::default()],
        ..Trace::default()
    };
    for name in ["T0", "T0.1"] {
        let (name, parent) = (name.into(), None);
        trace.threads.push(Thread { name, parent });
    }
    let access = Access {
        address: SHARED,
        size: 8,
    };
    let mut accesses = vec![(0, 20, Op::Write(access)), (1, 30, Op::Read(access))];
    if is_early {
        accesses.reverse();
    }
    let is_watched = plan.watches.contains(&global(SHARED));
    for (thread, line, op) in accesses.into_iter().filter(|_| is_watched) {
        let place = PlaceId::from_index(trace.places.len());
        let frame = SourcePlace {
            function: "f".into(),
            file: "src/a.c".into(),
            line,
            column: 1,
        };
        trace.places.push(Place {
            pc: u64::from(line),
            frames: vec![frame],
        });
        let thread = ThreadId(thread);
        trace.events.push(Event { thread, place, op });
    }
    Seen {
        ended: if is_early {
            Ended::Signalled(11)
        } else {
            Ended::Exited(0)
        },
        output: String::new(),
        trace,
    }
}

/// The memory on which the failure depends; the third statement of the slice accesses it.
const SHARED: u64 = 30;

/// A search in which every second run fails. Runs under a plan are reported `late` runs after it was named.
fn search(late: usize) -> (Sketch, Reach, Vec<usize>) {
    let statements: Vec<Trackable> = [10, 11, SHARED, 12, 13].map(|at| statement(&[at])).into();
    let lines = statements.iter().map(|one| (one.file.clone(), one.line));
    let slice = Slice {
        lines: lines.collect(),
    };
    let mut tracking = Tracking::new(WATCHPOINTS, Signs::default());
    let (mut waiting, mut traces, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match tracking.next_step() {
            Next::Enough => break,
            Next::Slice(_) => tracking.slice(slice.clone(), statements.clone()),
            Next::Run { plan, watches } => {
                waiting.insert(0, (plan, watches));
                if waiting.len() > late {
                    let (plan, watches) = waiting.pop().unwrap();
                    watched.push(watches.watches.len());
                    let number = traces.len() as u32;
                    let seen = run(&watches, number.is_multiple_of(2));
                    tracking.add(number, plan, &seen);
                    traces.push(seen.trace);
                }
            }
        }
        assert!(traces.len() < 500, "the search does not end");
    }
    watched.dedup();
    let trace = |number: u32| Ok::<_, Infallible>(traces[number as usize].clone());
    let (sketch, reach) = tracking.explain(None, trace).unwrap();
    (sketch, reach, watched)
}

#[test]
fn twice_as_many_statements_are_tracked_until_the_cause_is_seen() {
    let (sketch, reach, watched) = search(0);
    // Nothing until it fails, then two statements, then four of the five.
    assert_eq!(watched, [0, 2, 4]);
    let expected = Reach {
        sigma: 4,
        statements: 5,
        // The write is at a line that the slice does not have.
        added: 1,
    };
    assert_eq!(reach, expected);
    let best = &sketch.predictors[0];
    assert!(matches!(best.fact, Fact::Order { .. }), "{best:?}");
    assert_eq!((best.statements(), best.f()), (vec![30, 20], 1.0));
}

#[test]
fn runs_that_are_reported_late_count_for_the_plan_that_they_had() {
    let (sketch, _, _) = search(5);
    let best = &sketch.predictors[0];
    assert_eq!((best.statements(), best.f()), (vec![30, 20], 1.0));
}

#[test]
fn the_same_reports_give_the_same_sketch() {
    let text = |late| format!("{:?}", search(late).0);
    assert_eq!(text(0), text(0));
    assert_eq!(text(3), text(3));
}

#[test]
fn sites_look_at_the_whole_slice_where_there_are_no_watchpoints() {
    let means = Means {
        watchpoints: false,
        sites: true,
    };
    let mut tracking = Tracking::new(means, Signs::default());
    tracking.add(0, 0, &run(&Plan::nothing(), true));
    assert!(matches!(tracking.next_step(), Next::Slice(_)));
    let statements: Vec<Trackable> = (1..=20).map(|at| statement(&[at])).collect();
    tracking.slice(Slice::default(), statements);
    let Next::Run { watches, .. } = tracking.next_step() else {
        panic!("a run is wanted");
    };
    assert_eq!(watches.sites.len(), 20);
}

/// Whatever a participant sends, it is read or refused: numbers at the ends of their ranges, lines that are cut, threads
/// that create themselves, and files that are none of the program's.
#[test]
fn hostile_observations_do_no_harm() {
    const NUMBERS: [&str; 8] = [
        "0",
        "1",
        "8",
        "9",
        "4096",
        "4294967295",
        "18446744073709551615",
        "-",
    ];
    const ADDRESSES: [&str; 6] = [
        "0",
        "1",
        "7",
        "fffffffffffffff8",
        "ffffffffffffffff",
        "4010",
    ];
    const WORDS: [&str; 10] = [
        "access", "passed", "branch", "freed", "failed", "thread", "armed", "off", "refused", "map",
    ];
    let mut random = norns_random::Random::new(17);
    let mut events = 0;
    for _ in 0..200 {
        let mut text = String::from("norns-observations 1\n");
        let mut pick = |from: &[&'static str]| random.pick(from);
        for _ in 0..40 {
            let line = match pick(&WORDS) {
                "map" => "map 0-ffffffffffffffff r-xp 0 00:01 1 /dev/zero".to_string(),
                word @ ("armed" | "off" | "refused") => {
                    format!("{word} {} {}", pick(&NUMBERS), pick(&ADDRESSES))
                }
                word => {
                    let at = [pick(&NUMBERS), pick(&NUMBERS), pick(&ADDRESSES)].join(" ");
                    match word {
                        "access" => format!(
                            "{word} {at} {} {} {}",
                            pick(&ADDRESSES),
                            pick(&NUMBERS),
                            pick(&ADDRESSES)
                        ),
                        "passed" => format!(
                            "{word} {at} write {} {} {}",
                            pick(&ADDRESSES),
                            pick(&NUMBERS),
                            pick(&ADDRESSES)
                        ),
                        "thread" => format!(
                            "{word} {} {} {} {} {}",
                            pick(&NUMBERS),
                            pick(&NUMBERS),
                            pick(&NUMBERS),
                            pick(&NUMBERS),
                            pick(&ADDRESSES)
                        ),
                        "freed" => format!("{word} {at} {}", pick(&ADDRESSES)),
                        "failed" => format!("{word} {at} signal {} 11", pick(&ADDRESSES)),
                        _ => format!("{word} {at}"),
                    }
                }
            };
            text.push_str(&line);
            text.push('\n');
        }
        let cut = text.len() - random.below(60);
        let report = Report::new(0, End::Signalled(11), String::new(), text[..cut].into());
        let report = Report::parse(&report.text()).unwrap();
        let seen =
            read_observations_of(&report.observations, Path::new("/absent/program")).unwrap();
        events += seen.trace.events.len();
        let longest = seen.trace.threads.iter().map(|thread| thread.name.len());
        assert!(longest.max().unwrap_or(0) < 300);
        let mut tracking = Tracking::new(WATCHPOINTS, Signs::default());
        tracking.add(0, 0, &report.seen(seen.trace.clone()));
        // A plan that was never named.
        tracking.add(1, 7, &report.seen(seen.trace));
        assert_eq!(tracking.runs(), 1);
    }
    assert!(events > 1000, "{events}");
}
