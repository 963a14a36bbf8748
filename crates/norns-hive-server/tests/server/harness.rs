//! Servers, databases and participants for tests. A server that a test starts ends with the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use norns_hive::client::Hive;
use norns_hive::protocol::{Access, VERSION};
use norns_hive::{
    Batch, BatchId, Build, BuildId, Candidate, CandidateId, Frame, Origin, Outcome, ParticipantId,
    Place as CodePlace, ProgramName, Report, Site, SiteNumber, Task, TaskReport, TaskRequest,
};

/// Where a server keeps its data.
pub struct Place {
    pub arguments: Vec<String>,
    /// A folder for everything else.
    pub folder: PathBuf,
}

impl Place {
    /// A fresh folder.
    pub fn folder(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hive-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder of tests can be written");
        let data = folder.join("data").display().to_string();
        Self {
            arguments: vec!["--data".into(), data],
            folder,
        }
    }

    pub fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub fn start_with(&self, more: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_norns-hive-server"))
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.arguments)
            .args(more)
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server was built");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let kept = self.folder.join("people-token");
        let url = loop {
            let line = lines
                .next()
                .expect("the server says where it listens")
                .expect("text");
            if let Some(token) = line.strip_prefix("hive: the token for people is ") {
                fs::write(&kept, token).expect("the folder of tests can be written");
            }
            if let Some(url) = line.strip_prefix("hive: listening at ") {
                break url.to_owned();
            }
        };
        let people_token = fs::read_to_string(kept).expect("the first server makes a token");
        Server {
            child,
            url,
            people_token,
        }
    }
}

/// A PostgreSQL server, started when a test first needs it.
#[derive(Default)]
pub struct Cluster {
    running: Mutex<Option<(PathBuf, Child)>>,
}

const BINARIES: &str = "/usr/lib/postgresql/15/bin";
/// PostgreSQL refuses to run as root.
const USER: &str = "nobody";

impl Cluster {
    /// A fresh database.
    pub fn database(&self, name: &str) -> Place {
        let mut running = self.running.lock().expect("no test panics with this lock");
        let (socket, _) = running.get_or_insert_with(start_postgres);
        let create = format!("CREATE DATABASE \"{name}\"");
        let status = Command::new("psql")
            .args(["-q", "-U", "norns", "-d", "postgres", "-c", &create, "-h"])
            .arg(&*socket)
            .status();
        assert!(
            status
                .expect("psql is installed: sudo apt-get install postgresql")
                .success()
        );
        let url = format!("postgres:///{name}?host={}&user=norns", socket.display());
        let place = Place::folder(&format!("postgres-{name}"));
        Place {
            arguments: vec!["--database".into(), url],
            ..place
        }
    }

    pub fn stop(&self) {
        let mut running = self.running.lock().expect("no test panics with this lock");
        if let Some((folder, mut server)) = running.take() {
            // SIGINT: end at once, in good order. The child may be `runuser`, which does not pass it on.
            let pid = fs::read_to_string(folder.join("data/postmaster.pid"));
            let pid = pid.expect("PostgreSQL runs");
            run("kill", &["-INT", pid.lines().next().expect("a process id")]);
            let _ = server.wait();
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn start_postgres() -> (PathBuf, Child) {
    let folder = std::env::temp_dir().join(format!("norns-hive-postgres-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    let is_root = run("id", &["-u"]).trim() == "0";
    let user = |program: &str| {
        let mut command = Command::new(if is_root { "runuser" } else { program });
        if is_root {
            command.args(["-u", USER, "--", program]);
        }
        command.current_dir("/");
        command
    };
    if is_root {
        run("chown", &[USER, &folder.display().to_string()]);
    }
    let data = folder.join("data");
    let output = user(&format!("{BINARIES}/initdb"))
        .args(["-A", "trust", "-U", "norns", "--no-sync", "-D"])
        .arg(&data)
        .output()
        .expect("PostgreSQL is installed: sudo apt-get install postgresql");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let server = user(&format!("{BINARIES}/postgres"))
        .arg("-D")
        .arg(&data)
        .arg("-k")
        .arg(&folder)
        .args(["-c", "listen_addresses="])
        .stderr(Stdio::null())
        .spawn()
        .expect("it was installed just now");
    let folder_text = folder.display().to_string();
    let mut tries = 0..600;
    let ready = tries.any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let asked = Command::new("pg_isready")
            .args(["-q", "-h", &folder_text])
            .status();
        asked.is_ok_and(|status| status.success())
    });
    assert!(ready, "PostgreSQL does not become ready in {folder_text}");
    (folder, server)
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

pub fn signal(child: &Child, name: &str) {
    run("kill", &[&format!("-{name}"), &child.id().to_string()]);
}

/// A server that runs.
pub struct Server {
    child: Child,
    pub url: String,
    pub people_token: String,
}

impl Server {
    pub fn people(&self) -> Hive {
        Hive::new(&self.url, Some(self.people_token.clone()), None).expect("no certificates")
    }

    pub fn sites(&self, token: &str) -> Hive {
        Hive::new(&self.url, Some(token.to_owned()), None).expect("no certificates")
    }

    /// Adds a build of a new program; returns how its sites ask.
    pub fn add(&self, build: &Build) -> Hive {
        let added = self.people().add(build).expect("the build is good");
        self.sites(&added.site_token.expect("the program is new"))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }

    /// Asks the server to end, and returns its exit status.
    pub fn end(&mut self) -> Option<i32> {
        signal(&self.child, "TERM");
        self.child.wait().expect("it ends").code()
    }

    /// Sends a request as it is, and returns the status and the body of the answer.
    pub fn raw(&self, head: &str, body: &[u8]) -> (u16, String) {
        let address = self
            .url
            .strip_prefix("http://")
            .expect("it does not speak TLS");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let length = body.len();
        let head = format!(
            "{head}\r\nHost: hive\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        // The server may answer and close before it has read everything.
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.unwrap_or(0), body.to_owned())
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let head = format!(
            "GET {path} HTTP/1.1\r\nAuthorization: Bearer {}",
            self.people_token
        );
        self.raw(&head, b"")
    }

    /// A figure of `/metrics`.
    pub fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        value.parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn program() -> ProgramName {
    ProgramName::new("bank").expect("a name")
}

pub const SOURCE: &str = "long balance;\n\nvoid deposit(long sum) {\n    balance += sum;\n}\n\nvoid withdraw(long sum) {\n    balance -= sum;\n}\n";

fn place(line: u32, function: &str, access: Access) -> CodePlace {
    let file = "src/bank.c".to_owned();
    CodePlace {
        file,
        line,
        column: 5,
        function: function.into(),
        access,
    }
}

/// A candidate whose places have the sites `2 * number` and `2 * number + 1`.
pub fn candidate(number: u32) -> Candidate {
    Candidate {
        id: CandidateId::new(format!("{number:016x}")).expect("16 digits"),
        origin: Origin::Scan,
        rank: 5,
        object: "balance".into(),
        places: [
            place(4, "deposit", Access::Write),
            place(8, "withdraw", Access::Read),
        ],
        sites: [
            vec![SiteNumber(2 * number)],
            vec![SiteNumber(2 * number + 1)],
        ],
    }
}

pub fn build(id: &str, candidates: u32) -> Build {
    let sites = (0..2 * candidates).map(|number| Site {
        number: SiteNumber(number),
        file: "src/bank.c".into(),
        line: 4,
        column: 5,
        function: "deposit".into(),
        access: Access::Write,
        size: 8,
    });
    Build {
        format: VERSION,
        program: program(),
        id: BuildId::new(id).expect("8 digits"),
        label: "v1".into(),
        sites: sites.collect(),
        candidates: (0..candidates).map(candidate).collect(),
        sources: [("src/bank.c".to_owned(), SOURCE.to_owned())].into(),
    }
}

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// One installation that takes part.
pub struct Participant {
    pub id: ParticipantId,
    pub build: BuildId,
    pub hive: Hive,
}

impl Participant {
    pub fn new(hive: &Hive, build: &Build) -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let id = ParticipantId::new(format!("{number:032x}")).expect("32 digits");
        Self {
            id,
            build: build.id.clone(),
            hive: hive.clone(),
        }
    }

    pub fn task(&self) -> Option<Task> {
        let request = TaskRequest {
            format: VERSION,
            participant: self.id.clone(),
            build: self.build.clone(),
            active: None,
        };
        self.hive
            .task(&program(), &request)
            .expect("the request is good")
            .task
    }

    pub fn batch(&self, reports: Vec<Report>) -> Batch {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Batch {
            format: VERSION,
            id: BatchId::new(format!("{number:032x}")).expect("32 digits"),
            participant: self.id.clone(),
            build: self.build.clone(),
            reports,
        }
    }
}

/// The report that a task led to this.
pub fn report(task: &Task, result: Outcome) -> TaskReport {
    let frame = |line, function: &str| Frame {
        module: "bank".into(),
        offset: 0x1139,
        function: function.into(),
        file: "src/bank.c".into(),
        line,
    };
    let stacks = match result {
        Outcome::Race => vec![vec![frame(4, "deposit")], vec![frame(8, "withdraw")]],
        _ => Vec::new(),
    };
    TaskReport {
        task: task.id.clone(),
        candidate: task.candidate.clone(),
        sites: task.sites,
        order: task.order,
        tau_ms: task.tau_ms,
        result,
        stacks,
        consequence: None,
    }
}
