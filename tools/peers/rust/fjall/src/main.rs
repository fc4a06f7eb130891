// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures fjall with the work of db_bench.

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy,
    FilterPolicyEntry,
};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
};
use peer_bench::{Config, Engine, Entries, Result, Session};

#[derive(Default)]
struct FjallEngine {
    open: Option<(Database, Keyspace)>,
    sync: bool,
}

impl FjallEngine {
    fn parts(&self) -> Result<&(Database, Keyspace)> {
        self.open.as_ref().ok_or_else(|| "not open".into())
    }
}

impl Engine for FjallEngine {
    fn remarks(&self) -> String {
        "an unsynced write survives a kill of the process (its log is written \
         at each commit); compresses with LZ4"
            .to_string()
    }

    fn open(&mut self, config: &Config) -> Result<()> {
        self.sync = config.sync;
        let db = Database::builder(&config.path)
            .cache_size(config.cache_bytes)
            .worker_threads(config.background_jobs)
            .open()?;
        let keyspace = db.keyspace("entries", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(config.write_buffer_bytes)
                .data_block_size_policy(BlockSizePolicy::all(
                    config.block_bytes,
                ))
                .data_block_compression_policy(CompressionPolicy::all(
                    if config.compress {
                        CompressionType::Lz4
                    } else {
                        CompressionType::None
                    },
                ))
                .filter_policy(if config.bloom_bits >= 1 {
                    FilterPolicy::all(FilterPolicyEntry::Bloom(
                        BloomConstructionPolicy::BitsPerKey(
                            config.bloom_bits as f32,
                        ),
                    ))
                } else {
                    FilterPolicy::disabled()
                })
        })?;
        self.open = Some((db, keyspace));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }

    fn session(&self, _: usize) -> Result<Box<dyn Session + '_>> {
        let (db, keyspace) = self.parts()?;
        Ok(Box::new(FjallSession { db, keyspace, sync: self.sync }))
    }

    fn compact(&self) -> Result<bool> {
        self.parts()?.1.major_compact()?;
        Ok(true)
    }
}

struct FjallSession<'a> {
    db: &'a Database,
    keyspace: &'a Keyspace,
    sync: bool,
}

impl Session for FjallSession<'_> {
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn put_all(&mut self, entries: &Entries) -> Result<()> {
        // Without a mode the log would stay in the process's buffer.
        let mode =
            if self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(mode));
        for (key, value) in entries.iter() {
            batch.insert(self.keyspace, key, value);
        }
        Ok(batch.commit()?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.keyspace.get(key)? {
            found(&value);
        }
        Ok(())
    }

    fn seek(
        &mut self,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        for entry in self.keyspace.range(key.unwrap_or_default()..) {
            let (key, value) = entry.into_inner()?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

fn main() {
    let manifest = include_str!("../Cargo.toml");
    peer_bench::main("fjall", manifest, "fjall", &mut FjallEngine::default());
}
