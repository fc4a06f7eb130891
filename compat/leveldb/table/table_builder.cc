// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <snappy.h>

#include <cstdio>
#include <cstdlib>

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/table/filter_block.h"
#include "compat/leveldb/table/table_format.h"

namespace leveldb {

using varve::compat::BlockContentBuilder;
using varve::compat::BlockPlace;

struct TableBuilder::Rep {
  Rep(const Options& builder_options, WritableFile* output)
      : options(builder_options),
        file(output),
        filters(options.filter_policy) {}

  // Writes a content, and sets *place to where it is.
  void Write(const Slice& content, CompressionType compression,
             BlockPlace* place);
  // Compresses a content if that makes it an eighth smaller, and writes it.
  void Compress(const Slice& content, BlockPlace* place);
  void FlushBlock();
  // The key of a block in the index is at or after its last key, and before the
  // first key of the next block. So it is added when that is known.
  void AddIndexEntry();
  Status WriteTail();
  void RequireOpen(const char* call) const {
    if (!is_closed) return;
    fprintf(stderr, "leveldb: TableBuilder::%s after Finish or Abandon\n",
            call);
    abort();
  }

  Options options;
  WritableFile* const file;
  uint64_t offset = 0;
  uint64_t entries = 0;
  bool is_closed = false;
  Status status;
  BlockContentBuilder data;
  BlockContentBuilder index;
  varve::compat::FilterBlockBuilder filters;
  std::string last_key;
  // A block was written and is not in the index yet.
  bool is_index_due = false;
  BlockPlace due;
  std::string compressed;
};

void TableBuilder::Rep::Write(const Slice& content, CompressionType compression,
                              BlockPlace* place) {
  place->offset = offset;
  place->bytes = content.size();
  const char type = static_cast<char>(compression);
  std::string trailer(1, type);
  varve::compat::AppendFixed32(&trailer,
                               varve::compat::BlockChecksum(content, type));
  status = file->Append(content);
  if (status.ok()) status = file->Append(Slice(trailer));
  if (status.ok()) offset += content.size() + trailer.size();
}

void TableBuilder::Rep::Compress(const Slice& content, BlockPlace* place) {
  if (options.compression == kSnappyCompression) {
    snappy::Compress(content.data(), content.size(), &compressed);
    if (compressed.size() < content.size() - content.size() / 8) {
      return Write(Slice(compressed), kSnappyCompression, place);
    }
  }
  Write(content, kNoCompression, place);
}

void TableBuilder::Rep::FlushBlock() {
  if (!status.ok() || data.empty()) return;
  Compress(data.Finish(), &due);
  data.Reset();
  if (!status.ok()) return;
  is_index_due = true;
  status = file->Flush();
  filters.StartBlock(offset);
}

void TableBuilder::Rep::AddIndexEntry() {
  std::string place;
  due.AppendTo(&place);
  index.Add(Slice(last_key), Slice(place), /*restart_interval=*/1);
  is_index_due = false;
}

Status TableBuilder::Rep::WriteTail() {
  BlockContentBuilder metaindex;
  BlockPlace place;
  std::string encoded;
  // Not the policy of the options, which ChangeOptions may have replaced.
  if (const FilterPolicy* const policy = filters.policy()) {
    Write(filters.Finish(), kNoCompression, &place);
    if (!status.ok()) return status;
    place.AppendTo(&encoded);
    metaindex.Add(Slice(std::string("filter.") + policy->Name()),
                  Slice(encoded), /*restart_interval=*/1);
  }
  BlockPlace metaindex_place;
  Compress(metaindex.Finish(), &metaindex_place);
  if (!status.ok()) return status;
  if (is_index_due) {
    options.comparator->FindShortSuccessor(&last_key);
    AddIndexEntry();
  }
  BlockPlace index_place;
  Compress(index.Finish(), &index_place);
  if (!status.ok()) return status;

  std::string footer;
  metaindex_place.AppendTo(&footer);
  index_place.AppendTo(&footer);
  footer.resize(varve::compat::kTableFooterBytes - 8, '\0');
  varve::compat::AppendFixed32(&footer, varve::compat::kTableMagicLow);
  varve::compat::AppendFixed32(&footer, varve::compat::kTableMagicHigh);
  status = file->Append(Slice(footer));
  if (status.ok()) offset += footer.size();
  return status;
}

TableBuilder::TableBuilder(const Options& options, WritableFile* file)
    : rep_(new Rep(options, file)) {}

TableBuilder::~TableBuilder() { delete rep_; }

Status TableBuilder::ChangeOptions(const Options& options) {
  if (options.comparator != rep_->options.comparator) {
    return varve::compat::InvalidArgument(
        "changing comparator while building table");
  }
  rep_->options = options;
  return Status();
}

void TableBuilder::Add(const Slice& key, const Slice& value) {
  rep_->RequireOpen("Add");
  if (!rep_->status.ok()) return;
  if (rep_->entries > 0 &&
      rep_->options.comparator->Compare(key, Slice(rep_->last_key)) <= 0) {
    rep_->status = varve::compat::InvalidArgument(
        "TableBuilder::Add: the key is not after the key before it");
    return;
  }
  if (rep_->is_index_due) {
    rep_->options.comparator->FindShortestSeparator(&rep_->last_key, key);
    rep_->AddIndexEntry();
  }
  rep_->filters.AddKey(key);
  rep_->last_key.assign(key.data(), key.size());
  ++rep_->entries;
  rep_->data.Add(key, value, rep_->options.block_restart_interval);
  if (rep_->data.EstimateBytes() >= rep_->options.block_size) Flush();
}

void TableBuilder::Flush() {
  rep_->RequireOpen("Flush");
  rep_->FlushBlock();
}

Status TableBuilder::status() const { return rep_->status; }

Status TableBuilder::Finish() {
  rep_->RequireOpen("Finish");
  rep_->FlushBlock();
  rep_->is_closed = true;
  return rep_->status.ok() ? rep_->WriteTail() : rep_->status;
}

void TableBuilder::Abandon() {
  rep_->RequireOpen("Abandon");
  rep_->is_closed = true;
}

uint64_t TableBuilder::NumEntries() const { return rep_->entries; }
uint64_t TableBuilder::FileSize() const { return rep_->offset; }

}  // namespace leveldb
