//! The server among other things: several processes, TLS, the end, many connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use norns_hive::client::Hive;
use norns_hive::{Outcome, Report, Verdict};

use crate::Case;
use crate::harness::{Participant, Place, Server, build, program, report, run};

pub const CASES: &[Case] = &[
    ("tls", tls),
    ("a_token_can_be_replaced", a_token_can_be_replaced),
    ("ends_in_good_order", ends_in_good_order),
    (
        "connections_beyond_the_limit_are_refused",
        connections_beyond_the_limit_are_refused,
    ),
    (
        "a_folder_belongs_to_one_process",
        a_folder_belongs_to_one_process,
    ),
];

pub fn several_processes_share_it(place: &Place) {
    let (one, other) = (place.start(), place.start());
    let build = build("abcdef01", 1);
    let added = one.people().add(&build).expect("the build is good");
    let token = added.site_token.expect("the program is new");
    let participant = Participant::new(&one.sites(&token), &build);
    let task = participant.task().expect("there is a candidate");
    let verdict = |server: &Server| {
        let races = server.people().races(Some(&program())).ok()?;
        Some(races.races.first()?.verdict)
    };
    until("the other process knows the build", || {
        verdict(&other) == Some(Verdict::Unknown)
    });
    // The other process takes the report of a task that the first one gave.
    let batch = participant.batch(vec![Report::Task(report(&task, Outcome::Race))]);
    let accepted = other
        .sites(&token)
        .report(&program(), &batch)
        .expect("it is stored");
    assert_eq!(accepted.accepted, 1);
    until("the first process knows the race", || {
        verdict(&one) == Some(Verdict::TrueRace)
    });
    assert!(participant.task().is_none());
}

/// Waits for something that happens by itself.
#[track_caller]
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_token_can_be_replaced(place: &Place) {
    let server = place.start();
    let build = build("abcdef01", 1);
    let old = Participant::new(&server.add(&build), &build);
    assert!(old.task().is_some());
    let authorised = format!("Authorization: Bearer {}", server.people_token);
    let head = format!("POST /v1/programs/bank/token HTTP/1.1\r\n{authorised}");
    let (status, answer) = server.raw(&head, b"");
    assert_eq!(status, 200, "{answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let token = answer["site_token"].as_str().expect("a token");
    let new = Participant::new(&server.sites(token), &build);
    assert!(new.task().is_some());
    let refused = old.hive.report(&program(), &old.batch(Vec::new()));
    assert!(refused.is_err());
}

fn tls(place: &Place) {
    let (certificate, key) = (place.folder.join("cert.pem"), place.folder.join("key.pem"));
    let (certificate_text, key_text) =
        (certificate.display().to_string(), key.display().to_string());
    run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=hive",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &key_text,
            "-out",
            &certificate_text,
        ],
    );
    let server = place.start_with(&["--tls-cert", &certificate_text, "--tls-key", &key_text]);
    assert!(server.url.starts_with("https://"));
    let token = || Some(server.people_token.clone());
    let trusting = Hive::new(&server.url, token(), Some(&certificate)).expect("a certificate");
    assert!(trusting.races(None).expect("it answers").races.is_empty());
    let doubting = Hive::new(&server.url, token(), None).and_then(|hive| hive.races(None));
    assert!(doubting.is_err());
    let plain =
        Hive::new(&server.url.replace("https", "http"), token(), None).expect("no certificates");
    assert!(plain.races(None).is_err());
}

fn ends_in_good_order(place: &Place) {
    let mut server = place.start();
    let address = server
        .url
        .strip_prefix("http://")
        .expect("no TLS")
        .to_owned();
    let mut events = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: hive\r\nAuthorization: Bearer {}\r\n\r\n",
        server.people_token
    );
    events.write_all(head.as_bytes()).expect("it reads");
    let mut first = [0; 12];
    events.read_exact(&mut first).expect("it answers");
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(server.end(), Some(0));
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).expect("the stream ends");
    assert!(String::from_utf8_lossy(&rest).contains("event: changed"));
}

fn connections_beyond_the_limit_are_refused(place: &Place) {
    let server = place.start_with(&["--connections", "20"]);
    let address = server.url.strip_prefix("http://").expect("no TLS");
    let held: Vec<TcpStream> = (0..200)
        .filter_map(|_| TcpStream::connect(address).ok())
        .collect();
    // Refused ones are closed at once; the others wait for a request.
    let is_closed = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let mut stream = stream;
        matches!(stream.read(&mut [0]), Ok(0)) || stream.take_error().is_err()
    };
    until("those beyond the limit are closed", || {
        held.iter().filter(|it| is_closed(it)).count() >= 180
    });
    drop(held);
    until("the server answers again", || {
        server.raw("GET /healthz HTTP/1.1", b"").0 == 200
    });
    assert!(server.metric("norns_hive_connections_refused_total") >= 180);
}

fn a_folder_belongs_to_one_process(place: &Place) {
    let _server = place.start();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_norns-hive-server"))
        .args(["--listen", "127.0.0.1:0"])
        .args(&place.arguments)
        .output()
        .expect("it was built");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is used by another hive"), "{said}");
}
