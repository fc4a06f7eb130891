// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's names for live files and properties of tables; see
// varve/rocksdb.h.

#include "varve/db.h"
#include "varve/metadata.h"
#include "varve/rocksdb/names.h"
#include "varve/table_properties.h"
#include "varve/transaction_log.h"

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::ColumnFamilyMetaData;
using varve::EntryType;
using varve::FileStorageInfo;
using varve::FileType;
using varve::LevelMetaData;
using varve::LiveFileMetaData;
using varve::LiveFilesStorageInfoOptions;
using varve::LiveFileStorageInfo;
using varve::NewCompactOnDeletionCollectorFactory;
using varve::RangePtr;
using varve::SstFileMetaData;
using varve::TableProperties;
using varve::TablePropertiesCollection;
using varve::TablePropertiesCollector;
using varve::TablePropertiesCollectorFactory;
using varve::Temperature;
using varve::UserCollectedProperties;
using varve::VectorWalPtr;
using varve::WalFile;
using varve::WalFileType;

using varve::BatchResult;
using varve::TransactionLogIterator;

using LogFile = WalFile;
using VectorLogPtr = VectorWalPtr;

// RocksDB's enumerations are not scoped.
inline constexpr FileType kWalFile = FileType::kWalFile;
inline constexpr FileType kDBLockFile = FileType::kDBLockFile;
inline constexpr FileType kTableFile = FileType::kTableFile;
inline constexpr FileType kDescriptorFile = FileType::kDescriptorFile;
inline constexpr FileType kCurrentFile = FileType::kCurrentFile;
inline constexpr FileType kTempFile = FileType::kTempFile;
inline constexpr FileType kInfoLogFile = FileType::kInfoLogFile;
inline constexpr FileType kMetaDatabase = FileType::kMetaDatabase;
inline constexpr FileType kIdentityFile = FileType::kIdentityFile;
inline constexpr FileType kOptionsFile = FileType::kOptionsFile;
inline constexpr FileType kBlobFile = FileType::kBlobFile;
inline constexpr WalFileType kArchivedLogFile = WalFileType::kArchivedLogFile;
inline constexpr WalFileType kAliveLogFile = WalFileType::kAliveLogFile;
inline constexpr EntryType kEntryPut = EntryType::kEntryPut;
inline constexpr EntryType kEntryDelete = EntryType::kEntryDelete;
inline constexpr EntryType kEntrySingleDelete = EntryType::kEntrySingleDelete;
inline constexpr EntryType kEntryMerge = EntryType::kEntryMerge;
inline constexpr EntryType kEntryRangeDeletion = EntryType::kEntryRangeDeletion;
inline constexpr EntryType kEntryOther = EntryType::kEntryOther;

struct CompactionOptions {
  // kDisableCompressionOption: as the level's.
  CompressionType compression = kDisableCompressionOption;
  uint64_t output_file_size_limit = UINT64_MAX;
  uint32_t max_subcompactions = 0;  // No effect.
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
