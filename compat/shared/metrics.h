// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace varve::compat {

// Metrics of several databases in one text of Prometheus's format. The engine's
// text for one database has no labels that name it.
class Metrics {
 public:
  // Adds the engine's text for a database, with the label db="<path>".
  void Add(const std::string& path, std::string_view text);
  // Returns all, grouped by metric.
  std::string ToString() const;

 private:
  struct Metric {
    std::string title;  // Its comment lines.
    std::string samples;
  };
  std::map<std::string, Metric, std::less<>> metrics_;
};

}  // namespace varve::compat
