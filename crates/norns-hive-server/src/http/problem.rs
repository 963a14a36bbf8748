//! What a request is answered with when it fails.

use std::fmt::Display;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use norns_hive::protocol::{self, VERSION};

use crate::log::{self, Level};
use crate::threads::Failed;

#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    error: String,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
        }
    }

    pub fn malformed(why: &dyn Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why.to_string())
    }

    pub fn too_large(limit: usize) -> Self {
        let error = format!("the body is larger than {limit} bytes, or did not arrive");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, error)
    }

    pub fn token(what: &str) -> Self {
        let error = format!("this needs {what} as `Authorization: Bearer TOKEN`");
        Self::new(StatusCode::UNAUTHORIZED, error)
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    pub fn quota() -> Self {
        let error = "this participant has done more than its share; the next hour is a new one";
        Self::new(StatusCode::TOO_MANY_REQUESTS, error)
    }

    pub fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the request took too long")
    }
}

impl From<Failed> for Problem {
    fn from(failed: Failed) -> Self {
        let error = match failed {
            Failed::Busy => "the hive is busy".to_owned(),
            Failed::Store(error) => {
                log::line(Level::Error, "store", &[("error", error.into())]);
                "the hive cannot use its database; what was sent is not stored".to_owned()
            }
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let problem = protocol::Problem {
            format: VERSION,
            error: self.error,
        };
        (self.status, Json(problem)).into_response()
    }
}
