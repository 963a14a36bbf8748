//! Server-sent events: that something changed, at most once a second. The page then asks for what it shows.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;

use super::{Problem, people};
use crate::hive::Hive;

pub async fn events(
    State(hive): State<&'static Hive>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    people::authorised(hive, &headers)?;
    let mut changes = hive.programs.changes();
    let ending = hive.ending.subscribe();
    changes.mark_changed();
    let events = unfold((changes, false), move |(mut changes, later)| {
        let mut ending = ending.clone();
        async move {
            tokio::select! {
                // A stream has no end of its own: it must not keep the server from stopping.
                _ = ending.wait_for(|ending| *ending) => return None,
                changed = next(&mut changes, later) => changed?,
            }
            let generation = *changes.borrow_and_update();
            let event = Event::default()
                .event("changed")
                .data(generation.to_string());
            Some((Ok(event), (changes, true)))
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

async fn next(changes: &mut tokio::sync::watch::Receiver<u64>, later: bool) -> Option<()> {
    if later {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    changes.changed().await.ok()
}
