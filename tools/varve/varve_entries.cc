// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_entries.h"

#include <algorithm>

#include "tools/varve/varve_lines.h"
#include "tools/varve/varve_text.h"
#include "varve/write_batch.h"

namespace varve {

namespace {

// A batch of many entries is written when it reaches this size.
constexpr size_t kBatchBytes = 1 << 20;

void PrintJson(const Slice* key, const Slice& value, bool hex, FILE* out) {
  fputc('{', out);
  if (key != nullptr) {
    PrintJsonField("key", *key, hex, out);
    fputc(',', out);
  }
  PrintJsonField("value", value, hex, out);
  fputs("}\n", out);
}

Status WriteAndClose(DB* db, WriteBatch* batch, Session* session) {
  Status status = db->Write(WriteOptions(), batch);
  if (status.ok()) status = db->Close();
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

// Takes a line apart at its first tab.
Status ParsePair(const LineReader& reader, const Slice& line, bool hex,
                 std::string* key, std::string* value) {
  const char* const tab = std::find(line.data(), line.end(), '\t');
  if (tab == line.end()) {
    return reader.Wrong("there is no tab between key and value");
  }
  const Slice left(line.data(), static_cast<size_t>(tab - line.data()));
  const Slice right(tab + 1, static_cast<size_t>(line.end() - tab) - 1);
  if (!hex) {
    *key = left.ToString();
    *value = right.ToString();
  } else if (!DecodeHex(left, key) || !DecodeHex(right, value)) {
    return reader.Wrong("not hexadecimal, such as 0x61, on both sides");
  }
  return Status();
}

Status PutLines(DB* db, Session* session) {
  LineReader reader(session->in, "standard input");
  Progress progress(*session);
  WriteBatch batch;
  uint64_t count = 0;
  std::string key;
  std::string value;
  Slice line;
  while (reader.Next(&line)) {
    Status status =
        ParsePair(reader, line, session->line.Has("hex"), &key, &value);
    if (!status.ok()) return status;
    batch.Put(key, value);
    ++count;
    if (batch.ApproximateSize() < kBatchBytes) continue;
    status = db->Write(WriteOptions(), &batch);
    if (!status.ok()) return status;
    batch.Clear();
    if (progress.Due()) progress.Show(std::to_string(count) + " entries");
  }
  if (!reader.status().ok()) return reader.status();
  return WriteAndClose(db, &batch, session);
}

}  // namespace

Status RunGet(Session* session) {
  std::unique_ptr<DB> db;
  Status status = OpenToRead(session->line, &db);
  PinnableSlice value;
  if (status.ok()) status = db->Get(ReadOptions(), session->operand(0), &value);
  if (status.IsNotFound() && status.message().empty()) {
    return Status::NotFound("the key is not in the database");
  }
  if (!status.ok()) return status;
  const bool hex = session->line.Has("hex");
  if (session->line.Has("json")) {
    PrintJson(nullptr, value, hex, session->out);
  } else {
    PrintLdb(value, hex, session->out);
    fputc('\n', session->out);
  }
  OutputFailed(session);
  value.Reset();
  return db->Close();
}

Status RunPut(Session* session) {
  std::unique_ptr<DB> db;
  const Status status = OpenToWrite(session->line, &db);
  if (!status.ok()) return status;
  WriteBatch batch;
  batch.Put(session->operand(0), session->operand(1));
  return WriteAndClose(db.get(), &batch, session);
}

Status RunDelete(Session* session) {
  std::unique_ptr<DB> db;
  const Status status = OpenToWrite(session->line, &db);
  if (!status.ok()) return status;
  WriteBatch batch;
  batch.Delete(session->operand(0));
  return WriteAndClose(db.get(), &batch, session);
}

Status RunScan(Session* session) {
  std::unique_ptr<DB> db;
  Status status = OpenToRead(session->line, &db);
  if (!status.ok()) return status;
  const bool hex = session->line.Has("hex");
  const bool json = session->line.Has("json");
  const BoundedScan scan(session->line);
  std::unique_ptr<Iterator> iterator = scan.NewIterator(db.get());
  uint64_t left = session->line.Number("limit", UINT64_MAX);
  if (left > 0) iterator->SeekToFirst();
  for (; left > 0 && iterator->Valid(); --left) {
    const Slice key = iterator->key();
    if (json) {
      PrintJson(&key, iterator->value(), hex, session->out);
    } else {
      PrintLdb(key, hex, session->out);
      fputs(" : ", session->out);
      PrintLdb(iterator->value(), hex, session->out);
      fputc('\n', session->out);
    }
    if (OutputFailed(session)) break;
    iterator->Next();
  }
  status = iterator->status();
  iterator.reset();
  return status.ok() ? db->Close() : status;
}

Status RunBatchPut(Session* session) {
  const std::vector<std::string>& operands = session->line.operands;
  std::unique_ptr<DB> db;
  const Status status = OpenToWrite(session->line, &db);
  if (!status.ok()) return status;
  if (operands.empty()) return PutLines(db.get(), session);
  WriteBatch batch;
  for (size_t i = 0; i < operands.size(); i += 2) {
    batch.Put(operands[i], operands[i + 1]);
  }
  return WriteAndClose(db.get(), &batch, session);
}

}  // namespace varve
