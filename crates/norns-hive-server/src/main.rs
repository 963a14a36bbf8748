//! The server of a hive: `norns hive serve` runs it.
//!
//! The path of a report: `serve` accepts its connection, `http` its request; `task_id` says whether the task
//! was given to this participant; `threads` stores it with others in one transaction of `store`, and only
//! then it is acknowledged. `programs` has in memory what tasks are chosen from.
//!
//! The release profile ends the process at a panic; what comes from outside must never lead to one.
#![forbid(unsafe_code)]

mod hive;
mod http;
mod log;
mod metrics;
mod programs;
mod quota;
mod serve;
mod store;
mod task_id;
mod threads;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::Parser;
use norns_hive::tokens::{self, Tokens};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::hive::Place;
use crate::log::Level;
use crate::store::Sqlite;

#[derive(Parser)]
#[command(
    name = "norns-hive-server",
    version,
    about = "Serves a hive: tasks, reports and a page"
)]
struct Arguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:7007", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The folder of the database
    #[arg(
        long,
        default_value = "hive",
        value_name = "FOLDER",
        conflicts_with = "database"
    )]
    data: PathBuf,
    /// A PostgreSQL database instead, such as postgres://user@host/name
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The certificates, in PEM form, to speak TLS with
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the first of the certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How many connections may be open at once
    #[arg(long, default_value_t = 4000, value_name = "N")]
    connections: usize,
    /// Make one more token for people
    #[arg(long)]
    new_token: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(serve::tls(certificate, key)?),
        _ => None,
    };
    let (place, _lock) = match arguments.database {
        Some(url) => (Place::Server(url), None),
        None => {
            let lock = Sqlite::lock(&arguments.data)?;
            (Place::Folder(arguments.data), Some(lock))
        }
    };
    let opened = hive::open(&place, arguments.new_token)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let hive = opened.hive;
    runtime.block_on(async {
        let listener = TcpListener::bind(arguments.listen)
            .await
            .with_context(|| format!("cannot listen at {}", arguments.listen))?;
        let address = listener.local_addr().context("cannot listen")?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        if let Some(token) = opened.people_token {
            announce(&url, token);
        }
        let connections = serve::connections(arguments.connections);
        println!("hive: listening at {url}");
        log::line(
            Level::Information,
            "listening",
            &[("url", json!(url)), ("connections", json!(connections))],
        );
        let mut terminated = signal(SignalKind::terminate()).context("cannot wait for signals")?;
        let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
        tokio::spawn(hive.follow());
        tokio::spawn(async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
            hive.ending.send_replace(true);
        });
        serve::serve(hive, listener, tls, http::router(hive), connections).await;
        anyhow::Ok(())
    })?;
    log::line(Level::Information, "ended", &[]);
    Ok(())
}

/// Keeps the token where the other commands of this user find it, and says it once.
fn announce(url: &str, token: String) {
    println!("hive: the token for people is {token}");
    let Some(file) = tokens::file() else { return };
    let kept = Tokens::read(&file).and_then(|mut tokens| {
        tokens.set_people(url, token);
        tokens.write(&file)
    });
    match kept {
        Ok(()) => println!("hive: it is kept in {}", file.display()),
        Err(error) => eprintln!("hive: cannot keep it in {}: {error}", file.display()),
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

fn random() -> u64 {
    getrandom::u64().expect("the kernel has random bytes")
}
