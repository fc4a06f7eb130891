// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures libmdbx with the work of db_bench. Writes use the safe interface;
//! reads renew one transaction, as libmdbx advises, for which that interface
//! has no call.

use std::path::Path;
use std::ptr::null_mut;

use peer_bench::{Config, Engine, Entries, Result, Session};
use signet_libmdbx::ffi;
use signet_libmdbx::sys::EnvironmentKind;
use signet_libmdbx::{
    Database, Environment, Geometry, Mode, SyncMode, WriteFlags,
};

/// Address space for the map: the file grows only as far as it is written.
const MIN_MAP_BYTES: u64 = 64 << 30;
const MAX_MAP_BYTES: u64 = 32 << 40;
/// Bytes by which the file grows.
const GROWTH_BYTES: isize = 64 << 20;

#[derive(Default)]
struct MdbxEngine {
    open: Option<(Environment, Database)>,
}

impl Engine for MdbxEngine {
    fn remarks(&self) -> String {
        "a writable map, no sync (UtterlyNoSync): an unsynced write survives a \
         kill of the process, a power cut may corrupt the file; no log, no \
         compression, no filter; its cache is the page cache; writers take \
         turns"
            .to_string()
    }

    fn open(&mut self, config: &Config) -> Result<()> {
        let raw_bytes =
            8 * config.entries * (config.key_bytes + config.value_bytes) as u64;
        let map_bytes = raw_bytes.clamp(MIN_MAP_BYTES, MAX_MAP_BYTES);
        let sync_mode = if config.sync {
            SyncMode::Durable
        } else {
            SyncMode::UtterlyNoSync
        };
        let mut builder = Environment::builder();
        builder
            .set_kind(EnvironmentKind::WriteMap)
            .set_flags(Mode::ReadWrite { sync_mode }.into())
            .set_max_readers(2 * config.threads as u64 + 16)
            .set_geometry(Geometry {
                size: Some(0..map_bytes as usize),
                growth_step: Some(GROWTH_BYTES),
                ..Default::default()
            });
        let environment = builder.open(Path::new(&config.path))?;
        let transaction = environment.begin_rw_unsync()?;
        let database = transaction.open_db(None)?;
        transaction.commit()?;
        self.open = Some((environment, database));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }

    fn session(&self, _: usize) -> Result<Box<dyn Session + '_>> {
        let (environment, database) = self.open.as_ref().ok_or("not open")?;
        Ok(Box::new(MdbxSession {
            environment,
            database: *database,
            reader: Reader::default(),
        }))
    }
}

fn check(result: i32) -> Result<()> {
    if result == ffi::MDBX_SUCCESS {
        return Ok(());
    }
    Err(format!("libmdbx: error {result}").into())
}

/// A read transaction that is made once and then renewed, and its cursor.
struct Reader {
    transaction: *mut ffi::MDBX_txn,
    cursor: *mut ffi::MDBX_cursor,
}

impl Default for Reader {
    fn default() -> Self {
        Reader { transaction: null_mut(), cursor: null_mut() }
    }
}

impl Reader {
    /// Sees what is stored now; what was read before is invalid.
    fn renew(&mut self, environment: &Environment) -> Result<()> {
        if self.transaction.is_null() {
            return environment.with_raw_env_ptr(|raw| {
                check(unsafe {
                    ffi::mdbx_txn_begin_ex(
                        raw,
                        null_mut(),
                        ffi::MDBX_TXN_RDONLY,
                        &mut self.transaction,
                        null_mut(),
                    )
                })
            });
        }
        check(unsafe { ffi::mdbx_txn_reset(self.transaction) })?;
        check(unsafe { ffi::mdbx_txn_renew(self.transaction) })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        unsafe {
            if !self.cursor.is_null() {
                ffi::mdbx_cursor_close(self.cursor);
            }
            if !self.transaction.is_null() {
                ffi::mdbx_txn_abort(self.transaction);
            }
        }
    }
}

fn to_value(bytes: &[u8]) -> ffi::MDBX_val {
    ffi::MDBX_val { iov_len: bytes.len(), iov_base: bytes.as_ptr() as *mut _ }
}

/// REQUIRES: the transaction that read the value is not renewed while the
/// result is in use.
unsafe fn from_value<'a>(value: &ffi::MDBX_val) -> &'a [u8] {
    std::slice::from_raw_parts(value.iov_base.cast(), value.iov_len)
}

struct MdbxSession<'a> {
    environment: &'a Environment,
    database: Database,
    reader: Reader,
}

impl MdbxSession<'_> {
    fn find(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let key = to_value(key);
        let mut value = to_value(&[]);
        let result = unsafe {
            ffi::mdbx_get(
                self.reader.transaction,
                self.database.dbi(),
                &key,
                &mut value,
            )
        };
        if result == ffi::MDBX_NOTFOUND {
            return Ok(());
        }
        check(result)?;
        found(unsafe { from_value(&value) });
        Ok(())
    }
}

impl Session for MdbxSession<'_> {
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.environment.begin_rw_unsync()?;
        transaction.put(self.database, key, value, WriteFlags::empty())?;
        Ok(transaction.commit()?)
    }

    fn put_all(&mut self, entries: &Entries) -> Result<()> {
        let transaction = self.environment.begin_rw_unsync()?;
        for (key, value) in entries.iter() {
            transaction.put(self.database, key, value, WriteFlags::empty())?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.reader.renew(self.environment)?;
        self.find(key, found)
    }

    fn get_each(
        &mut self,
        keys: &[Vec<u8>],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        self.reader.renew(self.environment)?;
        for key in keys {
            self.find(key, found)?;
        }
        Ok(())
    }

    fn seek(
        &mut self,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.reader.renew(self.environment)?;
        let reader = &mut self.reader;
        unsafe {
            if reader.cursor.is_null() {
                check(ffi::mdbx_cursor_open(
                    reader.transaction,
                    self.database.dbi(),
                    &mut reader.cursor,
                ))?;
            } else {
                check(ffi::mdbx_cursor_renew(
                    reader.transaction,
                    reader.cursor,
                ))?;
            }
            let mut at = to_value(key.unwrap_or_default());
            let mut value = to_value(&[]);
            let mut operation = match key {
                Some(_) => ffi::MDBX_SET_RANGE,
                None => ffi::MDBX_FIRST,
            };
            loop {
                let result = ffi::mdbx_cursor_get(
                    reader.cursor,
                    &mut at,
                    &mut value,
                    operation,
                );
                if result == ffi::MDBX_NOTFOUND {
                    return Ok(());
                }
                check(result)?;
                if !each(from_value(&at), from_value(&value)) {
                    return Ok(());
                }
                operation = ffi::MDBX_NEXT;
            }
        }
    }
}

fn main() {
    let manifest = include_str!("../Cargo.toml");
    let engine = &mut MdbxEngine::default();
    peer_bench::main("libmdbx", manifest, "signet-libmdbx", engine);
}
