// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_trace.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <map>
#include <memory>
#include <unordered_map>

#include "tools/varve/varve_text.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

// Nesting beyond this is no trace of ours.
constexpr int kMaxDepth = 64;
constexpr uint32_t kMaxSpanDepth = 500;

// Reads JSON from front to back. After an error every call fails.
class JsonReader {
 public:
  explicit JsonReader(const Slice& text) : text_(text) {}

  bool failed() const { return failed_; }
  size_t offset() const { return at_; }
  bool Fail() {
    failed_ = true;
    return false;
  }

  // Calls member(key) for each, which must read the value.
  template <typename Member>
  bool ReadObject(Member member) {
    return ReadList('{', '}', [&] {
      std::string key;
      return ReadString(&key) && Take(':') && member(key);
    });
  }
  template <typename Element>
  bool ReadArray(Element element) {
    return ReadList('[', ']', element);
  }
  bool ReadString(std::string* out) {
    out->clear();
    if (!Take('"')) return Fail();
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ == text_.size()) return Fail();
        c = text_[at_++];
        if (c == 'u') {
          // Names are ASCII; anything else is shown as a mark.
          if (text_.size() - at_ < 4) return Fail();
          at_ += 4;
          c = '?';
        }
      }
      out->push_back(c);
    }
    return Take('"') || Fail();
  }
  // A number that is not negative, in thousandths; what is smaller is cut off.
  bool ReadThousandths(uint64_t* out) {
    SkipSpace();
    uint64_t value = 0;
    int places = -1;
    const size_t start = at_;
    for (; at_ < text_.size() && places < 3; ++at_) {
      const char c = text_[at_];
      if (c == '.' && places < 0) {
        places = 0;
      } else if (c >= '0' && c <= '9' && value < UINT64_MAX / 10) {
        value = value * 10 + static_cast<uint64_t>(c - '0');
        if (places >= 0) ++places;
      } else {
        break;
      }
    }
    if (at_ == start) return Fail();
    if (places == 3) SkipDigits();
    for (; places < 3; ++places) {
      if (places < 0) places = 0;
      if (value > UINT64_MAX / 10) return Fail();
      value *= 10;
    }
    // One that is too large, or has an exponent.
    if (at_ < text_.size() && IsNumber(text_[at_])) return Fail();
    *out = value;
    return true;
  }
  bool ReadInteger(uint64_t* out) {
    SkipSpace();
    const size_t start = at_;
    SkipDigits();
    const auto [end, error] =
        std::from_chars(text_.data() + start, text_.data() + at_, *out);
    if (error != std::errc() || (at_ < text_.size() && IsNumber(text_[at_]))) {
      return Fail();
    }
    return true;
  }
  bool Skip(int depth = 0) {
    if (depth > kMaxDepth) return Fail();
    SkipSpace();
    if (at_ == text_.size()) return Fail();
    const char c = text_[at_];
    std::string ignored;
    if (c == '"') return ReadString(&ignored);
    if (c == '{') {
      return ReadObject([&](const std::string&) { return Skip(depth + 1); });
    }
    if (c == '[') return ReadArray([&] { return Skip(depth + 1); });
    const size_t start = at_;
    while (at_ < text_.size() &&
           (IsNumber(text_[at_]) || (text_[at_] >= 'a' && text_[at_] <= 'z'))) {
      ++at_;
    }
    return at_ > start || Fail();
  }

 private:
  static bool IsNumber(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' ||
           c == 'e' || c == 'E';
  }
  void SkipDigits() {
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                  text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool Take(char c) {
    SkipSpace();
    if (failed_ || at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  template <typename Element>
  bool ReadList(char open, char close, Element element) {
    if (!Take(open)) return Fail();
    if (Take(close)) return true;
    do {
      if (!element()) return Fail();
    } while (Take(','));
    return Take(close) || Fail();
  }

  const Slice text_;
  size_t at_ = 0;
  bool failed_ = false;
};

bool ReadEvent(JsonReader* json, std::vector<TraceSpan>* spans) {
  TraceSpan span;
  std::string phase;
  const bool read = json->ReadObject([&](const std::string& key) {
    if (key == "name") return json->ReadString(&span.name);
    if (key == "ph") return json->ReadString(&phase);
    if (key == "ts") return json->ReadThousandths(&span.begin_ns);
    if (key == "dur") return json->ReadThousandths(&span.duration_ns);
    if (key == "tid") return json->ReadInteger(&span.thread);
    if (key != "args") return json->Skip();
    return json->ReadObject([&](const std::string& name) {
      if (name == "trace") return json->ReadInteger(&span.trace);
      if (name == "span") return json->ReadInteger(&span.id);
      if (name == "parent") return json->ReadInteger(&span.parent);
      if (name == "by") return json->ReadInteger(&span.done_by);
      return json->Skip();
    });
  });
  if (!read) return false;
  if (phase != "X") return true;
  if (span.trace == 0 || span.id == 0) return json->Fail();
  spans->push_back(std::move(span));
  return true;
}

// Appends the spans below `parent`.
void AppendBelow(const std::multimap<uint64_t, TraceSpan*>& by_parent,
                 uint64_t parent, uint32_t depth, TraceTree* tree) {
  if (depth > kMaxSpanDepth) return;
  const auto range = by_parent.equal_range(parent);
  std::vector<TraceSpan*> children;
  for (auto it = range.first; it != range.second; ++it) {
    children.push_back(it->second);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const TraceSpan* a, const TraceSpan* b) {
                     return a->begin_ns != b->begin_ns
                                ? a->begin_ns < b->begin_ns
                                : a->id < b->id;
                   });
  for (TraceSpan* child : children) {
    const uint64_t id = child->id;
    tree->spans.push_back(std::move(*child));
    tree->depths.push_back(depth);
    // Ids that go in circles are never reached from a root.
    AppendBelow(by_parent, id, depth + 1, tree);
  }
}

TraceTree BuildTree(TraceSpan* spans, size_t count) {
  std::unordered_map<uint64_t, const TraceSpan*> by_id;
  for (size_t i = 0; i < count; ++i) by_id.emplace(spans[i].id, &spans[i]);
  std::multimap<uint64_t, TraceSpan*> by_parent;
  for (size_t i = 0; i < count; ++i) {
    TraceSpan& span = spans[i];
    if (by_id.find(span.id)->second != &span) continue;  // An id twice.
    const bool known = by_id.contains(span.parent) && span.parent != span.id;
    by_parent.emplace(known ? span.parent : 0, &span);
  }
  TraceTree tree;
  AppendBelow(by_parent, 0, 0, &tree);
  return tree;
}

struct MergedNode {
  MergedSpan span;
  std::map<std::string, std::unique_ptr<MergedNode>> children;
};

void Flatten(MergedNode* node, uint32_t depth, std::vector<MergedSpan>* out) {
  std::vector<MergedNode*> children;
  for (auto& [name, child] : node->children) children.push_back(child.get());
  std::stable_sort(children.begin(), children.end(),
                   [](const MergedNode* a, const MergedNode* b) {
                     return a->span.total_ns > b->span.total_ns;
                   });
  for (MergedNode* child : children) {
    child->span.depth = depth;
    out->push_back(child->span);
    Flatten(child, depth + 1, out);
  }
}

double Micros(uint64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

Status ParseChromeTrace(const Slice& text, std::vector<TraceSpan>* spans) {
  JsonReader json(text);
  bool found = false;
  const bool read = json.ReadObject([&](const std::string& key) {
    if (key != "traceEvents") return json.Skip();
    found = true;
    return json.ReadArray([&] { return ReadEvent(&json, spans); });
  });
  if (!read) {
    return Status::Corruption("no trace in Chrome's format, at offset " +
                              std::to_string(json.offset()));
  }
  return found ? Status::OK() : Status::Corruption("there are no traceEvents");
}

std::vector<TraceTree> BuildTraceTrees(std::vector<TraceSpan> spans) {
  std::stable_sort(
      spans.begin(), spans.end(),
      [](const TraceSpan& a, const TraceSpan& b) { return a.trace < b.trace; });
  std::vector<TraceTree> trees;
  for (size_t begin = 0; begin < spans.size();) {
    size_t end = begin;
    while (end < spans.size() && spans[end].trace == spans[begin].trace) ++end;
    TraceTree tree = BuildTree(&spans[begin], end - begin);
    if (!tree.spans.empty()) trees.push_back(std::move(tree));
    begin = end;
  }
  std::stable_sort(trees.begin(), trees.end(),
                   [](const TraceTree& a, const TraceTree& b) {
                     return a.spans[0].duration_ns > b.spans[0].duration_ns;
                   });
  return trees;
}

std::vector<MergedSpan> MergeTraces(const std::vector<TraceTree>& trees) {
  MergedNode root;
  std::vector<MergedNode*> path;
  for (const TraceTree& tree : trees) {
    for (size_t i = 0; i < tree.spans.size(); ++i) {
      const TraceSpan& span = tree.spans[i];
      path.resize(tree.depths[i]);
      MergedNode* const parent = path.empty() ? &root : path.back();
      auto& child = parent->children[span.name];
      if (child == nullptr) {
        child = std::make_unique<MergedNode>();
        child->span.name = span.name;
      }
      ++child->span.count;
      child->span.total_ns += span.duration_ns;
      child->span.max_ns = std::max(child->span.max_ns, span.duration_ns);
      path.push_back(child.get());
    }
  }
  std::vector<MergedSpan> merged;
  Flatten(&root, 0, &merged);
  return merged;
}

std::string FormatTraces(const std::vector<TraceTree>& trees, size_t count) {
  std::string text;
  size_t spans = 0;
  for (const TraceTree& tree : trees) spans += tree.spans.size();
  AppendFormat(&text, "%zu traces, %zu spans\n\n", trees.size(), spans);
  AppendFormat(&text, "%12s %12s %12s %12s\n", "count", "total ms", "mean us",
               "max us");
  for (const MergedSpan& span : MergeTraces(trees)) {
    AppendFormat(&text, "%12" PRIu64 " %12.3f %12.3f %12.3f  %*s%.100s\n",
                 span.count, Micros(span.total_ns) / 1000,
                 Micros(span.total_ns) / static_cast<double>(span.count),
                 Micros(span.max_ns),
                 static_cast<int>(2 * std::min(span.depth, 40u)), "",
                 Escaped(span.name).c_str());
  }
  for (size_t i = 0; i < std::min(count, trees.size()); ++i) {
    const TraceTree& tree = trees[i];
    AppendFormat(&text, "\ntrace %" PRIu64 ", thread %" PRIu64 "\n%12s %12s\n",
                 tree.spans[0].trace, tree.spans[0].thread, "at us", "us");
    for (size_t j = 0; j < tree.spans.size(); ++j) {
      const TraceSpan& span = tree.spans[j];
      const uint64_t base = std::min(tree.spans[0].begin_ns, span.begin_ns);
      AppendFormat(&text, "%12.3f %12.3f  %*s%.100s",
                   Micros(span.begin_ns - base), Micros(span.duration_ns),
                   static_cast<int>(2 * std::min(tree.depths[j], 40u)), "",
                   Escaped(span.name).c_str());
      if (span.done_by != 0) {
        AppendFormat(&text, " (by thread %" PRIu64 ")", span.done_by);
      }
      text.push_back('\n');
    }
  }
  return text;
}

}  // namespace varve
