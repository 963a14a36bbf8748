//! What is written is read back, and no input makes a reader panic or read what is not there.

mod chunk;
mod environment;
mod random;
mod report;
mod schedule;
mod statistics;
mod stream;
