// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures a release build of RocksDB with the work of db_bench. Debian's
//! library, with which db_bench is linked, has assertions.

mod c;

use std::ffi::{c_char, CStr, CString};
use std::ptr::{null, null_mut};

use peer_bench::{Config, Engine, Entries, Result, Session};

use c::Object;

const NO_COMPRESSION: i32 = 0;
const SNAPPY: i32 = 1;

/// Calls `function` with a place for an error, and returns the error.
fn check<T>(function: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error = null_mut();
    let result = function(&mut error);
    to_result(error)?;
    Ok(result)
}

fn to_result(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        c::rocksdb_free(error.cast());
        Err(format!("rocksdb: {text}").into())
    }
}

/// REQUIRES: the bytes stay as they are while the result is in use.
unsafe fn to_bytes<'a>(
    object: Object,
    part: unsafe extern "C" fn(Object, *mut usize) -> *const u8,
) -> &'a [u8] {
    let mut length = 0;
    let start = part(object, &mut length);
    std::slice::from_raw_parts(start, length)
}

struct Parts {
    db: Object,
    family: Object,
    read_options: Object,
    write_options: Object,
}

// RocksDB's objects may be used by several threads, iterators and batches
// apart, which belong to sessions.
unsafe impl Send for Parts {}
unsafe impl Sync for Parts {}

impl Drop for Parts {
    fn drop(&mut self) {
        unsafe {
            c::rocksdb_column_family_handle_destroy(self.family);
            c::rocksdb_readoptions_destroy(self.read_options);
            c::rocksdb_writeoptions_destroy(self.write_options);
            c::rocksdb_close(self.db);
        }
    }
}

#[derive(Default)]
struct RocksEngine {
    open: Option<Parts>,
}

impl RocksEngine {
    fn parts(&self) -> Result<&Parts> {
        self.open.as_ref().ok_or_else(|| "not open".into())
    }
}

impl Engine for RocksEngine {
    fn remarks(&self) -> String {
        "an unsynced write survives a kill of the process; the release build \
         of RocksDB for Java, by its C interface"
            .to_string()
    }

    fn open(&mut self, config: &Config) -> Result<()> {
        let path = CString::new(config.path.as_str())?;
        unsafe {
            let table = c::rocksdb_block_based_options_create();
            c::rocksdb_block_based_options_set_block_size(
                table,
                config.block_bytes as usize,
            );
            let cache =
                c::rocksdb_cache_create_lru(config.cache_bytes as usize);
            c::rocksdb_block_based_options_set_block_cache(table, cache);
            if config.bloom_bits >= 1 {
                c::rocksdb_block_based_options_set_filter_policy(
                    table,
                    c::rocksdb_filterpolicy_create_bloom_full(f64::from(
                        config.bloom_bits,
                    )),
                );
            }
            let options = c::rocksdb_options_create();
            c::rocksdb_options_set_create_if_missing(options, 1);
            c::rocksdb_options_set_write_buffer_size(
                options,
                config.write_buffer_bytes as usize,
            );
            c::rocksdb_options_set_max_background_jobs(
                options,
                config.background_jobs as i32,
            );
            c::rocksdb_options_set_compression(
                options,
                if config.compress { SNAPPY } else { NO_COMPRESSION },
            );
            c::rocksdb_options_set_block_based_table_factory(options, table);
            let opened =
                check(|error| c::rocksdb_open(options, path.as_ptr(), error));
            c::rocksdb_options_destroy(options);
            c::rocksdb_block_based_options_destroy(table);
            c::rocksdb_cache_destroy(cache);
            let db = opened?;
            let write_options = c::rocksdb_writeoptions_create();
            c::rocksdb_writeoptions_set_sync(
                write_options,
                u8::from(config.sync),
            );
            self.open = Some(Parts {
                db,
                family: c::rocksdb_get_default_column_family_handle(db),
                read_options: c::rocksdb_readoptions_create(),
                write_options,
            });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }

    fn session(&self, _: usize) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession {
            parts: self.parts()?,
            batch: unsafe { c::rocksdb_writebatch_create() },
        }))
    }

    fn compact(&self) -> Result<bool> {
        let db = self.parts()?.db;
        unsafe { c::rocksdb_compact_range(db, null(), 0, null(), 0) };
        Ok(true)
    }
}

struct RocksSession<'a> {
    parts: &'a Parts,
    batch: Object,
}

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        unsafe { c::rocksdb_writebatch_destroy(self.batch) };
    }
}

/// Calls `found` with a value of a Get, if there is one, and releases it.
fn pass_on(slice: Object, found: &mut dyn FnMut(&[u8])) {
    if slice.is_null() {
        return;
    }
    unsafe {
        found(to_bytes(slice, c::rocksdb_pinnableslice_value));
        c::rocksdb_pinnableslice_destroy(slice);
    }
}

impl Session for RocksSession<'_> {
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check(|error| unsafe {
            c::rocksdb_put(
                self.parts.db,
                self.parts.write_options,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                error,
            )
        })
    }

    fn put_all(&mut self, entries: &Entries) -> Result<()> {
        unsafe { c::rocksdb_writebatch_clear(self.batch) };
        for (key, value) in entries.iter() {
            unsafe {
                c::rocksdb_writebatch_put(
                    self.batch,
                    key.as_ptr(),
                    key.len(),
                    value.as_ptr(),
                    value.len(),
                )
            };
        }
        check(|error| unsafe {
            c::rocksdb_write(
                self.parts.db,
                self.parts.write_options,
                self.batch,
                error,
            )
        })
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let slice = check(|error| unsafe {
            c::rocksdb_get_pinned(
                self.parts.db,
                self.parts.read_options,
                key.as_ptr(),
                key.len(),
                error,
            )
        })?;
        pass_on(slice, found);
        Ok(())
    }

    fn get_each(
        &mut self,
        keys: &[Vec<u8>],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let starts: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<_> = keys.iter().map(|key| key.len()).collect();
        let mut values = vec![null_mut(); keys.len()];
        let mut errors = vec![null_mut(); keys.len()];
        unsafe {
            c::rocksdb_batched_multi_get_cf(
                self.parts.db,
                self.parts.read_options,
                self.parts.family,
                keys.len(),
                starts.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        for (value, error) in values.into_iter().zip(errors) {
            to_result(error)?;
            pass_on(value, found);
        }
        Ok(())
    }

    fn seek(
        &mut self,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let Parts { db, read_options, .. } = *self.parts;
        unsafe {
            let iterator = c::rocksdb_create_iterator(db, read_options);
            match key {
                Some(key) => {
                    c::rocksdb_iter_seek(iterator, key.as_ptr(), key.len())
                }
                None => c::rocksdb_iter_seek_to_first(iterator),
            }
            while c::rocksdb_iter_valid(iterator) != 0
                && each(
                    to_bytes(iterator, c::rocksdb_iter_key),
                    to_bytes(iterator, c::rocksdb_iter_value),
                )
            {
                c::rocksdb_iter_next(iterator);
            }
            let result =
                check(|error| c::rocksdb_iter_get_error(iterator, error));
            c::rocksdb_iter_destroy(iterator);
            result
        }
    }
}

fn main() {
    let manifest = include_str!("../Cargo.toml");
    let engine = &mut RocksEngine::default();
    peer_bench::main("rocksdb_release", manifest, "rocksdbjni", engine);
}
