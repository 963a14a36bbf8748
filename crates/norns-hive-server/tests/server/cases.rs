//! What a hive does, whichever database it has.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use norns_hive::client::ClientError;
use norns_hive::protocol::{Access, VERSION};
use norns_hive::races::Race;
use norns_hive::{
    Consequence, ConsequenceKind, Order, Outcome, Report, RunFigures, SiteNumber, TaskId,
    TaskRequest, Verdict,
};

use crate::harness::{Participant, Place, Server, build, candidate, program, report};
use crate::{Case, fits};

pub const CASES: &[Case] = &[
    ("a_race_is_true_and_withdrawn", a_race_is_true_and_withdrawn),
    ("waiting_gets_longer", waiting_gets_longer),
    ("forged_reports_do_not_count", forged_reports_do_not_count),
    ("everything_counts_once", everything_counts_once),
    ("verdicts_carry_over", verdicts_carry_over),
    ("a_context_comes_first", a_context_comes_first),
    ("hostile_requests_are_refused", hostile_requests_are_refused),
    (
        "what_was_acknowledged_survives_sigkill",
        what_was_acknowledged_survives_sigkill,
    ),
    (
        "answers_fit_their_description",
        answers_fit_their_description,
    ),
];

fn races(server: &Server) -> Vec<Race> {
    server
        .people()
        .races(Some(&program()))
        .expect("the program exists")
        .races
}

fn a_race_is_true_and_withdrawn(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 1);
    let sites = server.add(&build);
    assert_eq!(races(&server)[0].verdict, Verdict::Unknown);
    let one = Participant::new(&sites, &build);
    let other = Participant::new(&sites, &build);
    let task = one.task().expect("there is a candidate");
    let kept = other.task().expect("there is a candidate");
    let mut race = report(&task, Outcome::Race);
    let kind = ConsequenceKind::Signal;
    race.consequence = Some(Consequence {
        kind,
        signal: 11,
        stack: race.stacks[0].clone(),
    });
    let accepted = sites.report(&program(), &one.batch(vec![Report::Task(race.clone())]));
    assert_eq!(accepted.expect("it is stored").accepted, 1);
    assert_eq!(races(&server)[0].verdict, Verdict::TrueRace);
    // Also the participant that is at work on it is told to stop.
    let request = TaskRequest {
        format: VERSION,
        participant: other.id.clone(),
        build: build.id.clone(),
        active: Some(kept.id),
    };
    assert_eq!(
        sites.task(&program(), &request).expect("it answers").task,
        None
    );
    let detail = server
        .people()
        .race(&program(), &task.candidate)
        .expect("it is there");
    assert_eq!(detail.evidence[0].report, race);
    assert_eq!(detail.excerpts[0].lines[3], "    balance += sum;");
    assert_eq!(detail.history[0].verdict, Verdict::TrueRace);
}

fn waiting_gets_longer(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 1);
    let sites = server.add(&build);
    let participant = Participant::new(&sites, &build);
    let mut waits = Vec::new();
    while let Some(task) = participant.task() {
        waits.push((task.order, task.tau_ms));
        assert!(waits.len() <= 10);
        let batch = participant.batch(vec![Report::Task(report(&task, Outcome::Timeout))]);
        sites.report(&program(), &batch).expect("it is stored");
    }
    waits.sort_unstable();
    let expected = |order| [1, 50, 100, 150, 200].map(|tau_ms| (order, tau_ms));
    assert_eq!(
        waits,
        [expected(Order::Primary), expected(Order::Alternate)].concat()
    );
    assert_eq!(races(&server)[0].verdict, Verdict::LikelyFalse);
}

fn forged_reports_do_not_count(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 2);
    let sites = server.add(&build);
    let participant = Participant::new(&sites, &build);
    let task = participant.task().expect("there are candidates");
    let honest = report(&task, Outcome::Race);
    let forged = [
        // A pair that the build does not have, another one than was asked for, another order.
        {
            let mut it = honest.clone();
            it.sites = [SiteNumber(77), SiteNumber(78)];
            it
        },
        {
            let mut it = honest.clone();
            it.candidate = candidate(9).id;
            it
        },
        {
            let mut it = honest.clone();
            it.sites.reverse();
            it
        },
        {
            let mut it = honest.clone();
            it.tau_ms += 1;
            it
        },
        {
            let mut it = honest.clone();
            it.task = TaskId::new("made-up").expect("printable");
            it
        },
    ];
    let count = u32::try_from(forged.len()).expect("a few");
    let batch = participant.batch(forged.into_iter().map(Report::Task).collect());
    let answer = sites.report(&program(), &batch).expect("it answers");
    assert_eq!((answer.accepted, answer.refused), (0, count));
    // A task that somebody else was given.
    let thief = Participant::new(&sites, &build);
    let answer = sites.report(&program(), &thief.batch(vec![Report::Task(honest)]));
    assert_eq!(answer.expect("it answers").refused, 1);
    // A context at a pair that does not exist.
    let pairs = vec![[SiteNumber(0), SiteNumber(3)]];
    let answer = sites.report(&program(), &thief.batch(vec![Report::Contexts { pairs }]));
    assert_eq!(answer.expect("it answers").refused, 1);
    assert!(
        races(&server)
            .iter()
            .all(|race| race.verdict == Verdict::Unknown)
    );
    assert_eq!(
        server.metric("norns_hive_refused_total{reason=\"forged\"}"),
        u64::from(count) + 2
    );
}

fn everything_counts_once(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 1);
    let sites = server.add(&build);
    let participant = Participant::new(&sites, &build);
    let task = participant.task().expect("there is a candidate");
    let reports = vec![
        Report::Task(report(&task, Outcome::NoRace)),
        Report::Run(RunFigures {
            wall_ms: 1000,
            ended: true,
            ..RunFigures::default()
        }),
    ];
    let batch = participant.batch(reports);
    let first = sites.report(&program(), &batch).expect("it is stored");
    assert_eq!((first.accepted, first.known), (2, false));
    let again = sites.report(&program(), &batch).expect("it is known");
    assert_eq!((again.accepted, again.known), (0, true));
    // The same task in another batch, twice.
    let task = Report::Task(report(&task, Outcome::NoRace));
    let replay = sites.report(&program(), &participant.batch(vec![task.clone(), task]));
    assert_eq!(replay.expect("it answers").refused, 2);
    assert_eq!(races(&server)[0].reports.no_race, 1);
    let (_, overview) = server.get("/v1/programs/bank");
    let overview: serde_json::Value = serde_json::from_str(&overview).expect("JSON");
    assert_eq!(overview["hours"][0]["runs"], 1);
}

fn verdicts_carry_over(place: &Place) {
    let server = place.start();
    let old = build("abcdef01", 3);
    let sites = server.add(&old);
    let participant = Participant::new(&sites, &old);
    let task = participant.task().expect("there are candidates");
    let batch = participant.batch(vec![Report::Task(report(&task, Outcome::Race))]);
    sites.report(&program(), &batch).expect("it is stored");
    let mut new = build("abcdef02", 3);
    let added = server.people().add(&new).expect("the build is good");
    assert_eq!((added.carried_over, added.site_token), (1, None));
    // What has no true race yet is still tried in the new build.
    let participant = Participant::new(&sites, &new);
    let tried: BTreeSet<_> = (0..20)
        .filter_map(|_| participant.task())
        .map(|task| task.candidate)
        .collect();
    assert!(!tried.is_empty() && !tried.contains(&task.candidate));
    // Another process of the same hive knows all of it.
    drop(server);
    let server = place.start();
    let verdicts = races(&server)
        .iter()
        .map(|race| race.verdict)
        .collect::<Vec<_>>();
    assert_eq!(
        verdicts,
        [Verdict::TrueRace, Verdict::Unknown, Verdict::Unknown]
    );
    // The same build again, without the code of the race: its older build still has it.
    new.candidates
        .retain(|candidate| candidate.id != task.candidate);
    assert_eq!(
        server
            .people()
            .add(&new)
            .expect("the build is good")
            .carried_over,
        0
    );
}

fn a_context_comes_first(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 9);
    let sites = server.add(&build);
    let participant = Participant::new(&sites, &build);
    // The order of the two sites does not matter.
    let pairs = vec![[SiteNumber(11), SiteNumber(10)]];
    // Several runs may have seen the same.
    let seen = Report::Contexts { pairs };
    let batch = participant.batch(vec![seen.clone(), seen]);
    let answer = sites.report(&program(), &batch).expect("it is stored");
    assert_eq!(answer.accepted, 2);
    let task = participant.task().expect("there are candidates");
    assert_eq!(task.candidate, candidate(5).id);
    assert_eq!(task.sites, [SiteNumber(10), SiteNumber(11)]);
}

fn hostile_requests_are_refused(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 1);
    let added = server.people().add(&build).expect("the build is good");
    let token = added.site_token.expect("the program is new");
    let post = |path: &str, token: &str, body: &[u8]| {
        let head = format!("POST /v1/programs/{path} HTTP/1.1\r\nAuthorization: Bearer {token}");
        server.raw(&head, body).0
    };
    assert_eq!(post("bank/task", &token, b"{"), 400);
    assert_eq!(post("bank/task", &token, b"{\"format\": 2}"), 400);
    assert_eq!(post("bank/task", &token, &[0xff; 100]), 400);
    assert_eq!(post("bank/reports", &token, &vec![b' '; 300 * 1024]), 413);
    assert_eq!(post("bank/reports", "wrong", b"{}"), 401);
    assert_eq!(post("elsewhere/reports", &token, b"{}"), 401);
    assert_eq!(post("%3Cscript%3E/reports", &token, b"{}"), 400);
    assert_eq!(post("bank/builds", &token, b"{}"), 401);
    assert_eq!(server.raw("BREW /v1/races HTTP/1.1", b"").0, 405);
    assert_eq!(server.raw("GET /../../etc/passwd HTTP/1.1", b"").0, 404);
    assert_eq!(server.raw("GET /metrics HTTP/1.1", b"").0, 401);
    let sites = server.sites(&token);
    let mut participant = Participant::new(&sites, &build);
    let task = participant.task().expect("there is a candidate");
    let mut markup = report(&task, Outcome::Race);
    markup.stacks[0][0].function = "zero\0".into();
    let zero = participant.batch(vec![Report::Task(markup.clone())]);
    assert!(matches!(
        sites.report(&program(), &zero),
        Err(ClientError::Refused { status: 400, .. })
    ));
    markup.stacks[0][0].function = "<script>alert(1)</script>'; DROP TABLE builds".into();
    let batch = participant.batch(vec![Report::Task(markup)]);
    assert_eq!(
        sites
            .report(&program(), &batch)
            .expect("it is text")
            .accepted,
        1
    );
    participant.build = norns_hive::BuildId::new("00000000").expect("8 digits");
    let unknown = participant.batch(Vec::new());
    assert!(matches!(
        sites.report(&program(), &unknown),
        Err(ClientError::Refused { status: 404, .. })
    ));
    for (reason, count) in [
        ("malformed", 4),
        ("oversized", 1),
        ("token", 4),
        ("unknown-build", 1),
    ] {
        let name = format!("norns_hive_refused_total{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&name), count, "{reason}");
    }
    let mut wrong = self::build("abcdef02", 1);
    wrong.candidates[0].sites[0] = vec![SiteNumber(99)];
    assert!(matches!(
        server.people().add(&wrong),
        Err(ClientError::Refused { status: 400, .. })
    ));
    wrong = self::build("abcdef02", 1);
    wrong.candidates[0].places[0].access = Access::Update;
    wrong.sources.insert("odd.c".into(), "zero \0 byte".into());
    assert!(server.people().add(&wrong).is_ok());
    assert_eq!(races(&server).len(), 1);
}

fn what_was_acknowledged_survives_sigkill(place: &Place) {
    let mut server = place.start();
    let build = build("abcdef01", 40);
    let added = server.people().add(&build).expect("the build is good");
    let token = added.site_token.expect("the program is new");
    let acknowledged = AtomicU64::new(0);
    let unsure = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let participant = Participant::new(&server.sites(&token), &build);
                // Ends when the server does, which is in the middle of something.
                for _ in 0..10_000 {
                    let request = TaskRequest {
                        format: VERSION,
                        participant: participant.id.clone(),
                        build: build.id.clone(),
                        active: None,
                    };
                    let Ok(answer) = participant.hive.task(&program(), &request) else {
                        return;
                    };
                    let task = answer.task.expect("nothing is decided");
                    let batch =
                        participant.batch(vec![Report::Task(report(&task, Outcome::NotSeen))]);
                    match participant.hive.report(&program(), &batch) {
                        Ok(answer) => {
                            assert_eq!(answer.accepted, 1);
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => return unsure.lock().expect("no thread panics").push(batch),
                    }
                }
            });
        }
        while acknowledged.load(Ordering::Relaxed) < 60 {
            std::thread::yield_now();
        }
        crate::harness::run("kill", &["-KILL", &server.id().to_string()]);
    });
    server.kill();
    let server = place.start();
    let sum = |server: &Server| {
        races(server)
            .iter()
            .map(|race| race.reports.not_seen)
            .sum::<u64>()
    };
    let acknowledged = acknowledged.into_inner();
    let unsure = unsure.into_inner().expect("no thread panics");
    let before = sum(&server);
    assert!(before >= acknowledged && before <= acknowledged + unsure.len() as u64);
    // What was not acknowledged is sent again, and then everything is there once.
    for batch in &unsure {
        let sites = server.sites(&token);
        sites.report(&program(), batch).expect("it is stored now");
    }
    assert_eq!(sum(&server), acknowledged + unsure.len() as u64);
}

fn answers_fit_their_description(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 2);
    let added = server.people().add(&build).expect("the build is good");
    let token = added.site_token.expect("the program is new");
    let participant = Participant::new(&server.sites(&token), &build);
    let task = participant.task().expect("there are candidates");
    let batch = participant.batch(vec![
        Report::Task(report(&task, Outcome::Race)),
        Report::Run(RunFigures {
            wall_ms: 10,
            ..RunFigures::default()
        }),
    ]);
    participant
        .hive
        .report(&program(), &batch)
        .expect("it is stored");
    let (status, description) = server.raw("GET /openapi.json HTTP/1.1", b"");
    assert_eq!(status, 200);
    let description = fits::Description::new(&description);
    let id = task.candidate.as_str();
    for (described, asked) in [
        ("/v1/races", "/v1/races"),
        ("/v1/programs", "/v1/programs"),
        ("/v1/programs/{program}", "/v1/programs/bank"),
        ("/v1/programs/{program}/races", "/v1/programs/bank/races"),
        (
            "/v1/programs/{program}/races/{id}",
            &format!("/v1/programs/bank/races/{id}"),
        ),
    ] {
        let (status, answer) = server.get(asked);
        assert_eq!(status, 200, "{asked}: {answer}");
        description.answer("get", described, "200", &answer);
    }
    description.answer(
        "get",
        "/v1/races",
        "default",
        &server.raw("GET /v1/races HTTP/1.1", b"").1,
    );
    let request = TaskRequest {
        format: VERSION,
        participant: participant.id.clone(),
        build: build.id.clone(),
        active: None,
    };
    let post = |path: &str, token: &str, status: &str, message: String| {
        let described = format!("/v1/programs/{{program}}/{path}");
        description.request(&described, &message);
        let head =
            format!("POST /v1/programs/bank/{path} HTTP/1.1\r\nAuthorization: Bearer {token}");
        let (said, answer) = server.raw(&head, message.as_bytes());
        assert_eq!(said.to_string(), status, "{answer}");
        description.answer("post", &described, status, &answer);
    };
    post("task", &token, "200", text(&request));
    post(
        "reports",
        &token,
        "200",
        text(&participant.batch(batch.reports.clone())),
    );
    post("builds", &server.people_token, "201", text(&build));
}

fn text(message: &impl serde::Serialize) -> String {
    serde_json::to_string(message).expect("messages have text keys")
}
