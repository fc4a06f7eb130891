// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// leveldb::DumpFile for LevelDB's tables, and for logs, whose format is the
// same for both engines. `varve` has commands for the engine's own tables and
// MANIFEST.
#include <cstdio>
#include <memory>

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/write_batch.h"

namespace leveldb {
namespace {

// A log is a sequence of 32 KiB blocks of fragments. A fragment is a checksum
// (4 bytes), a length (2 bytes), a kind (1 byte) and its bytes. No fragment
// crosses a block, and less space than a header at its end is unused.
constexpr size_t kLogBlockBytes = 32 << 10;
constexpr size_t kFragmentHeaderBytes = 7;
enum FragmentKind : char { kNone = 0, kFull, kFirst, kMiddle, kLast };

void AppendEscaped(std::string* out, const Slice& bytes) {
  *out += '\'';
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes.data()[i]);
    if (byte >= ' ' && byte <= '~') {
      *out += static_cast<char>(byte);
    } else {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
      *out += escaped;
    }
  }
  *out += '\'';
}

class BatchPrinter final : public WriteBatch::Handler {
 public:
  explicit BatchPrinter(std::string* out) : out_(out) {}
  void Put(const Slice& key, const Slice& value) override {
    *out_ += "  put ";
    AppendEscaped(out_, key);
    *out_ += ' ';
    AppendEscaped(out_, value);
    *out_ += '\n';
  }
  void Delete(const Slice& key) override {
    *out_ += "  del ";
    AppendEscaped(out_, key);
    *out_ += '\n';
  }

 private:
  std::string* const out_;
};

// Prints the batch of a record that begins at that offset.
Status DumpRecord(const std::string& record, size_t offset,
                  WritableFile* output) {
  constexpr size_t kSequenceBytes = 8;
  std::string text;
  Status status;
  if (record.size() < kSequenceBytes) {
    text =
        "--- offset " + std::to_string(offset) + "; the record is too short\n";
  } else {
    uint64_t sequence;
    memcpy(&sequence, record.data(), sizeof(sequence));
    text = "--- offset " + std::to_string(offset) + "; sequence " +
           std::to_string(sequence) + "\n";
    BatchPrinter printer(&text);
    status = varve::compat::BatchBytes::Make(record).Iterate(&printer);
    if (!status.ok()) text += "  error: " + status.ToString() + "\n";
  }
  return output->Append(Slice(text));
}

Status DumpLog(const std::string& log, WritableFile* output) {
  std::string record;
  size_t record_offset = 0;
  bool is_within = false;
  size_t offset = 0;
  while (offset < log.size()) {
    const size_t left = kLogBlockBytes - offset % kLogBlockBytes;
    if (left < kFragmentHeaderBytes) {
      offset += left;
      continue;
    }
    if (log.size() - offset < kFragmentHeaderBytes) break;
    const char* const header = log.data() + offset;
    const size_t length =
        static_cast<size_t>(static_cast<unsigned char>(header[4])) |
        static_cast<size_t>(static_cast<unsigned char>(header[5])) << 8;
    const char kind = header[6];
    if (kind == kNone && length == 0) break;  // Space that was not used yet.
    if (kind < kFull || kind > kLast || length > left - kFragmentHeaderBytes ||
        length > log.size() - offset - kFragmentHeaderBytes) {
      return varve::compat::Corruption("the log is damaged or cut off");
    }
    if (kind == kFull || kind == kFirst) {
      record.clear();
      record_offset = offset;
      is_within = true;
    }
    record.append(header + kFragmentHeaderBytes, length);
    offset += kFragmentHeaderBytes + length;
    if (is_within && (kind == kFull || kind == kLast)) {
      Status status = DumpRecord(record, record_offset, output);
      if (!status.ok()) return status;
      is_within = false;
    }
  }
  return Status();
}

// The keys of a database's table have a sequence number and a kind at their
// end.
Status DumpTable(Env* env, const std::string& path, WritableFile* output) {
  constexpr size_t kTrailerBytes = 8;
  uint64_t bytes = 0;
  RandomAccessFile* opened = nullptr;
  Status status = env->GetFileSize(path, &bytes);
  if (status.ok()) status = env->NewRandomAccessFile(path, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<RandomAccessFile> file(opened);
  Table* table = nullptr;
  status = Table::Open(Options(), file.get(), bytes, &table);
  if (!status.ok()) return status;
  const std::unique_ptr<Table> owned(table);
  const std::unique_ptr<Iterator> iterator(table->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const Slice key = iterator->key();
    std::string text;
    if (key.size() < kTrailerBytes) {
      text = "the key is too short ";
      AppendEscaped(&text, key);
    } else {
      uint64_t trailer;
      memcpy(&trailer, key.data() + key.size() - kTrailerBytes,
             sizeof(trailer));
      AppendEscaped(&text, Slice(key.data(), key.size() - kTrailerBytes));
      text += " @ " + std::to_string(trailer >> 8) +
              ((trailer & 0xff) == 1 ? " : val" : " : del");
    }
    text += " => ";
    AppendEscaped(&text, iterator->value());
    text += '\n';
    status = output->Append(Slice(text));
    if (!status.ok()) return status;
  }
  return iterator->status();
}

}  // namespace

Status DumpFile(Env* env, const std::string& path, WritableFile* output) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".log")) {
    std::string log;
    Status status = ReadFileToString(env, path, &log);
    return status.ok() ? DumpLog(log, output) : status;
  }
  if (name.ends_with(".ldb") || name.ends_with(".sst")) {
    return DumpTable(env, path, output);
  }
  if (name.starts_with("MANIFEST-")) {
    return {Status::kNotSupported, path, "use varve manifest-dump"};
  }
  return varve::compat::InvalidArgument(path, "unknown file type");
}

}  // namespace leveldb
