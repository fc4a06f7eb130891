// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Measures redb with the work of db_bench.

use std::path::Path;

use peer_bench::{Config, Engine, Entries, Result, Session};
use redb::{
    Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction,
};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

#[derive(Default)]
struct RedbEngine {
    db: Option<Database>,
    sync: bool,
}

impl RedbEngine {
    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let db = self.db.as_ref().ok_or("not open")?;
        let mut transaction = db.begin_write()?;
        transaction.set_durability(durability)?;
        Ok(transaction)
    }
}

impl Engine for RedbEngine {
    fn remarks(&self) -> String {
        "a kill of the process loses the unsynced writes since the last sync \
         (there is none but at the end); no compression, no filter; writers \
         take turns"
            .to_string()
    }

    fn open(&mut self, config: &Config) -> Result<()> {
        self.sync = config.sync;
        let file = Path::new(&config.path).join("redb.db");
        self.db = Some(
            Database::builder()
                .set_cache_size(config.cache_bytes as usize)
                .create(file)?,
        );
        let transaction = self.begin(Durability::Immediate)?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.begin(Durability::Immediate)?.commit()?;
        self.db = None;
        Ok(())
    }

    fn session(&self, _: usize) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { engine: self }))
    }
}

struct RedbSession<'a> {
    engine: &'a RedbEngine,
}

impl RedbSession<'_> {
    fn write(&self) -> Result<WriteTransaction> {
        self.engine.begin(if self.engine.sync {
            Durability::Immediate
        } else {
            Durability::None
        })
    }
}

impl Session for RedbSession<'_> {
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.write()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&mut self, entries: &Entries) -> Result<()> {
        let transaction = self.write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in entries.iter() {
                table.insert(key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let db = self.engine.db.as_ref().ok_or("not open")?;
        let table = db.begin_read()?.open_table(TABLE)?;
        if let Some(value) = table.get(key)? {
            found(value.value());
        }
        Ok(())
    }

    fn get_each(
        &mut self,
        keys: &[Vec<u8>],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let db = self.engine.db.as_ref().ok_or("not open")?;
        let table = db.begin_read()?.open_table(TABLE)?;
        for key in keys {
            if let Some(value) = table.get(key.as_slice())? {
                found(value.value());
            }
        }
        Ok(())
    }

    fn seek(
        &mut self,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let db = self.engine.db.as_ref().ok_or("not open")?;
        let table = db.begin_read()?.open_table(TABLE)?;
        for entry in table.range(key.unwrap_or_default()..)? {
            let (key, value) = entry?;
            if !each(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

fn main() {
    let manifest = include_str!("../Cargo.toml");
    peer_bench::main("redb", manifest, "redb", &mut RedbEngine::default());
}
