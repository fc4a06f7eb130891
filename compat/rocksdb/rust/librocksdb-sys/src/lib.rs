// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! RocksDB's C interface (`rocksdb/c.h` 11.8.1) on Varve, with the names of the
//! crate of the same name on crates.io.

#![allow(
    clippy::all,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
