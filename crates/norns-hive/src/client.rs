//! The client of a hive: synchronous, for the command line and for the agent of a guarded program.
//!
//! Every request has a time limit, and every answer a limit of size: what comes from the network is not
//! trusted more than what comes from a program. `https` is checked against the certificates that the system
//! trusts, or, where `NORNS_HIVE_CA` names a file, only against those in it, as for a hive with a certificate
//! of one's own.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

use crate::id::{CandidateId, ProgramName};
use crate::protocol::{
    Accepted, Added, Batch, Build, Problem, RaceDetail, TaskRequest, TaskResponse,
};
use crate::races::Races;

/// The variable that names a file with the certificates to trust.
pub const CA_VARIABLE: &str = "NORNS_HIVE_CA";
/// The variable with the token.
pub const TOKEN_VARIABLE: &str = "NORNS_HIVE_TOKEN";

/// Where Debian, and most others, keep the certificates that the system trusts.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The largest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// A hive that can be asked.
#[derive(Debug, Clone)]
pub struct Hive {
    url: String,
    token: Option<String>,
    agent: Agent,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing is known of what became of the request; it can be sent again.
    #[error("cannot reach the hive at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The hive cannot take it now: it is overloaded or cannot write. It can be sent again later.
    #[error("the hive at {url} cannot answer now ({status}): {message}")]
    Later {
        url: String,
        status: u16,
        message: String,
    },
    /// The hive will not take it, now or later.
    #[error("the hive at {url} refuses ({status}): {message}")]
    Refused {
        url: String,
        status: u16,
        message: String,
    },
    #[error("the answer of the hive at {url} is not understood: {reason}")]
    Answer { url: String, reason: String },
    #[error("cannot read the certificates in {file}: {reason}")]
    Certificates { file: String, reason: String },
}

impl ClientError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Later { .. })
    }
}

impl Hive {
    /// A hive at an address such as `http://127.0.0.1:7007`; the certificates to trust are those in the
    /// file, where there is one.
    pub fn new(
        url: &str,
        token: Option<String>,
        authorities: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider);
        if url.starts_with("https:") {
            tls = tls.root_certs(roots(authorities.unwrap_or(Path::new(SYSTEM_AUTHORITIES)))?);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_global(Some(Duration::from_secs(60)))
            .tls_config(tls.build())
            .user_agent(concat!("norns/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            token,
            agent: config.new_agent(),
        })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What a participant is to do now.
    pub fn task(
        &self,
        program: &ProgramName,
        request: &TaskRequest,
    ) -> Result<TaskResponse, ClientError> {
        self.post(&format!("/v1/programs/{program}/task"), request)
    }

    /// Hands in a batch. When this returns, the hive has stored it.
    pub fn report(&self, program: &ProgramName, batch: &Batch) -> Result<Accepted, ClientError> {
        self.post(&format!("/v1/programs/{program}/reports"), batch)
    }

    pub fn add(&self, build: &Build) -> Result<Added, ClientError> {
        self.post(&format!("/v1/programs/{}/builds", build.program), build)
    }

    /// The races of one program, or of all.
    pub fn races(&self, program: Option<&ProgramName>) -> Result<Races, ClientError> {
        match program {
            Some(program) => self.get(&format!("/v1/programs/{program}/races")),
            None => self.get("/v1/races"),
        }
    }

    /// Everything that is known of one candidate.
    pub fn race(&self, program: &ProgramName, id: &CandidateId) -> Result<RaceDetail, ClientError> {
        self.get(&format!("/v1/programs/{program}/races/{id}"))
    }

    fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        self.answer(request.call())
    }

    fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        message: &impl Serialize,
    ) -> Result<A, ClientError> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        request = request.header("Content-Type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let body = serde_json::to_vec(message).expect("messages of the protocol have text keys");
        self.answer(request.send(&body[..]))
    }

    fn answer<A: DeserializeOwned>(
        &self,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<A, ClientError> {
        let url = || self.url.clone();
        let unreachable = |reason: String| ClientError::Unreachable { url: url(), reason };
        let mut response = response.map_err(|error| unreachable(error.to_string()))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let reader = response.body_mut().as_reader();
        let read = reader.take(MAX_ANSWER_BYTES).read_to_end(&mut body);
        read.map_err(|error| unreachable(error.to_string()))?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
                url: url(),
                reason: error.to_string(),
            });
        }
        let message = match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => problem.error,
            Err(_) => "it does not say why; is this the address of a hive?".to_owned(),
        };
        Err(match status {
            408 | 425 | 429 | 500..=599 => ClientError::Later {
                url: url(),
                status,
                message,
            },
            _ => ClientError::Refused {
                url: url(),
                status,
                message,
            },
        })
    }
}

fn roots(file: &Path) -> Result<RootCerts, ClientError> {
    let unreadable = |reason: String| ClientError::Certificates {
        file: file.display().to_string(),
        reason,
    };
    let text = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(it) = item.map_err(|error| unreadable(error.to_string()))? {
            certificates.push(it);
        }
    }
    if certificates.is_empty() {
        return Err(unreadable("it has no certificate in PEM form".to_owned()));
    }
    Ok(RootCerts::from(certificates))
}
