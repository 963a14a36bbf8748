//! Connections: accepted up to a number, with or without TLS, each with a time limit for what it must say,
//! and ended gracefully.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower_service::Service as _;

use crate::hive::Hive;
use crate::http::Problem;
use crate::log::{self, Level};

/// How long a client may take for the head of a request, also for the next one on the same connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a request may take, its body included.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// How long requests that are under way may take when the server ends.
const ENDING_TIME: Duration = Duration::from_secs(10);

pub fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let name = certificate.display();
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificates in {name}"))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read the key in {}", key.display()))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("cannot use the certificates in {name} with this key"))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// How many connections there can be: as many as are wanted, and as the limit on open files allows.
pub fn connections(wanted: usize) -> usize {
    /// Files of the server's own: the database, the log.
    const OWN: usize = 64;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open_files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let open_files = open_files.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let possible = open_files.unwrap_or(1024_usize).saturating_sub(OWN);
    wanted.min(possible).max(1)
}

/// Accepts connections until the hive ends, then waits for those that are busy.
pub async fn serve(
    hive: &'static Hive,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections: usize,
) {
    let places = Arc::new(Semaphore::new(connections));
    let mut ending = hive.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // As when there are no more descriptors: they come back when connections end.
                log::line(
                    Level::Warning,
                    "not-accepted",
                    &[("error", error.to_string().into())],
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            hive.metrics.connections_refused.increase();
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            hive.metrics.connections.increase();
            match tls {
                None => connection(hive, stream, router).await,
                Some(tls) => {
                    let shaken = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        connection(hive, stream, router).await;
                    }
                }
            }
            hive.metrics.connections.decrease();
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(ENDING_TIME, places.acquire_many(all)).await;
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    hive: &'static Hive,
    stream: S,
    router: Router,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let answering = router.call(request.map(axum::body::Body::new));
            match tokio::time::timeout(REQUEST_TIME, answering).await {
                Ok(answer) => answer,
                Err(_) => Ok(axum::response::IntoResponse::into_response(Problem::slow())),
            }
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(64 * 1024);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut ending: watch::Receiver<bool> = hive.ending.subscribe();
    let ended = tokio::select! {
        // The other side went away, or did not speak HTTP.
        _ = connection.as_mut() => true,
        _ = ending.wait_for(|ending| *ending) => false,
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
