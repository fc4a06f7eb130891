// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/shared/metrics.h"

#include <algorithm>

namespace varve::compat {
namespace {

// Escapes a value of a label.
std::string Escape(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

// A line is "# TYPE <metric> <type>", or a sample of the metric before it:
// "<name> <value>" or "<name>{<labels>} <value>".
void Metrics::Add(const std::string& path, std::string_view text) {
  const std::string label = "db=\"" + Escape(path) + "\"";
  Metric* metric = nullptr;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("# TYPE ")) {
      const std::string_view name = line.substr(7, line.rfind(' ') - 7);
      metric = &metrics_[std::string(name)];
      metric->title.assign(line).append("\n");
      continue;
    }
    const size_t space = line.find(' ');
    if (metric == nullptr || space == line.npos) continue;
    const size_t brace = line.find('{');
    std::string& out = metric->samples;
    if (brace < space) {
      out.append(line.substr(0, brace + 1)).append(label).append(",");
      out.append(line.substr(brace + 1));
    } else {
      out.append(line.substr(0, space)).append("{").append(label).append("}");
      out.append(line.substr(space));
    }
    out += '\n';
  }
}

std::string Metrics::ToString() const {
  std::string out;
  for (const auto& [name, metric] : metrics_) {
    out += metric.title;
    out += metric.samples;
  }
  return out;
}

}  // namespace varve::compat
