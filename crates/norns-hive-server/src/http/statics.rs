//! What is compiled into the server: the page and the description of the interface.

use axum::http::header;
use axum::response::{IntoResponse, Response};

pub const OPENAPI: &str = include_str!("../openapi.json");

fn file(kind: &'static str, content: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

pub async fn page() -> Response {
    file(
        "text/html; charset=utf-8",
        include_str!("../page/page.html"),
    )
}

pub async fn script() -> Response {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../page/page.js"),
    )
}

pub async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("../page/page.css"))
}

pub async fn openapi() -> Response {
    file("application/json", OPENAPI)
}

pub async fn health() -> Response {
    file("text/plain", "ok\n")
}
