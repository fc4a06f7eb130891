// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_entries.h"

#include <algorithm>
#include <cerrno>

#include "table/block/internal_key.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_lines.h"
#include "tools/varve/varve_text.h"
#include "util/bytes/coding.h"
#include "varve/write_batch.h"

namespace varve {

namespace {

// A batch of many entries is written when it reaches this size.
constexpr size_t kBatchBytes = 1 << 20;

// Reads a value from standard input, up to the size that the database takes.
Status ReadValue(FILE* in, size_t key_size, std::string* value) {
  char piece[65536];
  size_t size;
  while ((size = fread(piece, 1, sizeof(piece), in)) > 0) {
    value->append(piece, size);
    if (!EntryFits(key_size, value->size())) {
      return Status::InvalidArgument(
          "standard input", "is longer than the largest value, almost 3 GiB");
    }
  }
  if (ferror(in) != 0) return Status::FromErrno("standard input", errno);
  return Status();
}

Status WriteAndClose(Database* db, WriteBatch* batch, Session* session) {
  Status status = db->get()->Write(WriteOptions(), batch);
  if (status.ok()) status = db->Close();
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

// Refuses an operand of uint64add that is no number, which would count as 0.
Status CheckNumber(Session* session, const std::string& value) {
  uint64_t number = 0;
  if (value.size() == sizeof(number)) return Status::OK();
  std::string bytes;
  PutFixed64(&bytes, ParseNumber(value, 10, &number) ? number : 1);
  const auto hex = [](const std::string& text) {
    return "0x" + Slice(text).ToString(/*hex=*/true);
  };
  return session->WrongUse("uint64add takes a number of 8 bytes, not of " +
                           std::to_string(value.size()) + ": type --hex " +
                           hex(session->operand(0)) + " " + hex(bytes) +
                           " to add " +
                           std::to_string(DecodeFixed64(bytes.data())));
}

using CheckValue = Status (*)(Session* session, const std::string& value);

// Writes what `add` makes of the operands KEY and VALUE. `check` may be null.
template <typename Add>
Status WriteValue(Session* session, Add add, CheckValue check = nullptr) {
  const std::string& key = session->operand(0);
  std::string value;
  Status status;
  if (session->line.value_is_input) {
    // Before anything is created, since the input may fail.
    status = RequireDatabase(session->line);
    if (status.ok()) status = ReadValue(session->in, key.size(), &value);
  } else {
    value = session->operand(1);
  }
  if (status.ok() && check != nullptr) status = check(session, value);
  Database db;
  if (status.ok()) status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  WriteBatch batch;
  add(&batch, db.family(), key, value);
  return WriteAndClose(&db, &batch, session);
}

// Takes a line apart at its first tab.
Status ParsePair(const LineReader& reader, const Slice& line,
                 const CommandLine& command_line, std::string* key,
                 std::string* value) {
  const char* const tab = std::find(line.data(), line.end(), '\t');
  if (tab == line.end()) {
    return reader.Wrong("there is no tab between key and value");
  }
  const Slice left(line.data(), static_cast<size_t>(tab - line.data()));
  const Slice right(tab + 1, static_cast<size_t>(line.end() - tab) - 1);
  if (command_line.Has("hex")) {
    if (DecodeHex(left, key) && DecodeHex(right, value)) return Status();
    return reader.Wrong("not hexadecimal, such as 0x61, on both sides");
  }
  if (command_line.Has("escaped")) {
    if (DecodeText(left, key) && DecodeText(right, value)) return Status();
    return reader.Wrong(
        "there is a backslash that begins neither \\\\ nor \\xHH");
  }
  *key = left.ToString();
  *value = right.ToString();
  return Status();
}

// Adds the number of entries that were written to *written.
Status PutLines(Database* db, Session* session, uint64_t* written) {
  LineReader reader(session->in, "standard input");
  Progress progress(*session);
  WriteBatch batch;
  uint64_t count = 0;
  std::string key;
  std::string value;
  Slice line;
  while (reader.Next(&line)) {
    Status status = ParsePair(reader, line, session->line, &key, &value);
    if (!status.ok()) return status;
    batch.Put(db->family(), key, value);
    ++count;
    if (batch.ApproximateSize() < kBatchBytes) continue;
    status = db->get()->Write(WriteOptions(), &batch);
    if (!status.ok()) return status;
    *written = count;
    batch.Clear();
    if (progress.Due()) progress.Show(std::to_string(count) + " entries");
  }
  if (!reader.status().ok()) return reader.status();
  return WriteAndClose(db, &batch, session);
}

// Prints what is stored of a key that may have merge operands.
Status PrintOperands(Database* db, Session* session) {
  const std::string& key = session->operand(0);
  GetMergeOperandsOptions limits;
  std::vector<PinnableSlice> operands;
  int count = 0;
  Status status;
  // The first call tells how many there are.
  do {
    limits.expected_max_number_of_operands = count;
    operands = std::vector<PinnableSlice>(static_cast<size_t>(count));
    status = db->get()->GetMergeOperands(ReadOptions(), db->family(), key,
                                         operands.data(), &limits, &count);
  } while (status.IsIncomplete() &&
           count > limits.expected_max_number_of_operands);
  if (status.IsNotFound() && status.message().empty()) {
    return session->Absent("the key is not in the database");
  }
  if (!status.ok()) return status;
  TextOutput out(session->out);
  for (int i = 0; i < count; ++i) {
    const PinnableSlice& operand = operands[static_cast<size_t>(i)];
    if (session->line.Has("json")) {
      JsonLine(&out).Text("operand", operand, session->line.Has("hex"));
    } else {
      out.Add(operand, FormOf(session->line));
      out.Add("\n");
    }
  }
  FlushOutput(&out, session);
  return status;
}

}  // namespace

Status RunGet(Session* session) {
  Database db;
  Status status = db.OpenToRead(*session);
  if (!status.ok()) return status;
  if (session->line.Has("operands")) {
    status = PrintOperands(&db, session);
    return status.ok() ? db.Close() : status;
  }
  PinnableSlice value;
  status = db->Get(ReadOptions(), db.family(), session->operand(0), &value);
  if (status.IsNotFound() && status.message().empty()) {
    return session->Absent("the key is not in the database");
  }
  if (!status.ok()) return status;
  TextOutput out(session->out);
  if (session->line.Has("json")) {
    JsonLine(&out).Text("value", value, session->line.Has("hex"));
  } else {
    out.Add(value, FormOf(session->line));
    if (!session->line.Has("raw")) out.Add("\n");
  }
  FlushOutput(&out, session);
  value.Reset();
  return db.Close();
}

Status RunPut(Session* session) {
  return WriteValue(session, [](WriteBatch* batch, ColumnFamilyHandle* family,
                                const Slice& key, const Slice& value) {
    batch->Put(family, key, value);
  });
}

Status RunMerge(Session* session) {
  std::shared_ptr<MergeOperator> merge_operator;
  const Status status = ChooseMergeOperator(session, &merge_operator);
  if (!status.ok()) return status;
  if (merge_operator == nullptr) {
    return session->WrongUse(
        "--merge_operator=OP is missing, and the OPTIONS file names none");
  }
  const bool adds =
      std::string_view(merge_operator->Name()) == "UInt64AddOperator";
  return WriteValue(
      session,
      [](WriteBatch* batch, ColumnFamilyHandle* family, const Slice& key,
         const Slice& value) { batch->Merge(family, key, value); },
      adds ? CheckNumber : nullptr);
}

Status RunDelete(Session* session) {
  Database db;
  const Status status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  WriteBatch batch;
  batch.Delete(db.family(), session->operand(0));
  return WriteAndClose(&db, &batch, session);
}

Status RunDeleteRange(Session* session) {
  const std::string& from = session->operand(0);
  const std::string& to = session->operand(1);
  Database db;
  const Status status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  // Case-insensitive keys may have another order.
  if (!session->line.Has("ignore_case") &&
      db.family()->GetComparator()->Compare(to, from) < 0) {
    return session->WrongUse("FROM comes after TO");
  }
  WriteBatch batch;
  batch.DeleteRange(db.family(), from, to);
  return WriteAndClose(&db, &batch, session);
}

Status RunBatchPut(Session* session) {
  const std::vector<std::string>& operands = session->line.operands;
  Database db;
  Status status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  if (operands.empty()) {
    uint64_t written = 0;
    status = PutLines(&db, session, &written);
    return status.ok() ? status
                       : status.Annotate(std::to_string(written) +
                                         " entries stay written");
  }
  WriteBatch batch;
  for (size_t i = 0; i < operands.size(); i += 2) {
    batch.Put(db.family(), operands[i], operands[i + 1]);
  }
  return WriteAndClose(&db, &batch, session);
}

}  // namespace varve
