// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A control group's folder is its path in the hierarchy, under the mount point
// of the hierarchy. A container often sees only a part of the hierarchy: the
// mount begins at a group, or a cgroup namespace makes the container's group
// the root. A path that leads nowhere then stands for the mount point itself.
// Groups outside of what is mounted cannot be read. With v1, their limit is in
// memory.stat.
#include "env/memory_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "env/descriptor_supply.h"
#include "util/base/process_wide.h"

namespace varve {
namespace {

constexpr size_t kMaxTextBytes = 1 << 20;

// Returns the beginning of a file, or an empty string.
std::string ReadText(const std::string& path) {
  const int descriptor = OpenDescriptor([&path] {
    return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  });
  if (descriptor < 0) return "";
  std::string text;
  char bytes[4096];
  ssize_t size = 0;
  while (text.size() < kMaxTextBytes &&
         (size = read(descriptor, bytes, sizeof(bytes))) > 0) {
    text.append(bytes, static_cast<size_t>(size));
  }
  close(descriptor);
  return text;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Removes the text up to a separator, or all, from *rest and returns it.
std::string_view Take(std::string_view* rest, char separator) {
  const size_t end = std::min(rest->find(separator), rest->size());
  const std::string_view taken = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return taken;
}

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (Take(&list, ',') == word) return true;
  }
  return false;
}

// Returns the limit that a text begins with. "max", a number that is too large,
// 0 and anything else are no limit.
uint64_t ParseLimit(std::string_view text) {
  uint64_t limit = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_whole =
      end == text.data() + text.size() || *end == '\n' || *end == ' ';
  return error == std::errc() && is_whole && limit > 0 ? limit : UINT64_MAX;
}

// Decodes a path of mountinfo, where a space is \040.
std::string DecodeMountPath(std::string_view text) {
  std::string path;
  while (!text.empty()) {
    unsigned char code = 0;
    if (text[0] == '\\' && text.size() >= 4 &&
        std::from_chars(text.data() + 1, text.data() + 4, code, 8).ptr ==
            text.data() + 4) {
      path += static_cast<char>(code);
      text.remove_prefix(4);
    } else {
      path += text[0];
      text.remove_prefix(1);
    }
  }
  return path;
}

// The hierarchy that limits the process's memory.
struct Hierarchy {
  bool is_v1 = false;
  std::string group;  // The process's path in it. Empty: there is none.
  std::string mount_root = "/";
  std::string mount_point;  // With MemoryLimitSources::root.
};

// A line is "<number>:<controllers>:<path>". Under v2 it is "0::<path>".
Hierarchy FindGroup(std::string_view text) {
  Hierarchy found;
  while (!text.empty()) {
    std::string_view line = Take(&text, '\n');
    Take(&line, ':');
    const std::string_view controllers = Take(&line, ':');
    if (!line.starts_with('/')) continue;
    if (HasWord(controllers, "memory")) {
      found.is_v1 = true;
      found.group = line;
      return found;
    }
    if (controllers.empty()) found.group = line;
  }
  return found;
}

// Fills in the mount of the hierarchy. A line of mountinfo is "<id> <parent>
// <device> <root> <mount point> <options> [<tag>...] - <type> <source> <super
// options>". Returns false if the hierarchy is not mounted.
bool FindMount(const std::string& root, std::string_view text,
               Hierarchy* hierarchy) {
  // The usual places save the reading of all mounts.
  hierarchy->mount_point =
      root + (hierarchy->is_v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
  if (text.empty()) return Exists(hierarchy->mount_point + "/cgroup.procs");
  bool found = false;
  while (!text.empty()) {
    std::string_view line = Take(&text, '\n');
    for (int i = 0; i < 3; ++i) Take(&line, ' ');
    const std::string_view mount_root = Take(&line, ' ');
    const std::string_view mount_point = Take(&line, ' ');
    while (!line.empty() && Take(&line, ' ') != "-") {
    }
    const std::string_view type = Take(&line, ' ');
    Take(&line, ' ');
    const bool fits = hierarchy->is_v1
                          ? type == "cgroup" && HasWord(line, "memory")
                          : type == "cgroup2";
    if (!fits) continue;
    hierarchy->mount_root = DecodeMountPath(mount_root);
    hierarchy->mount_point = root + DecodeMountPath(mount_point);
    found = true;
    // A mount of the whole hierarchy shows the most.
    if (hierarchy->mount_root == "/") break;
  }
  return found;
}

// Returns the group's path below the mount point, or an empty string if the
// mount does not show it.
std::string PathInMount(const Hierarchy& hierarchy) {
  std::string path = hierarchy.group;
  if (hierarchy.mount_root != "/") {
    const size_t size = hierarchy.mount_root.size();
    if (!path.starts_with(hierarchy.mount_root) ||
        (path.size() > size && path[size] != '/')) {
      return "";
    }
    path.erase(0, size);
  }
  while (path.ends_with('/')) path.pop_back();
  // A group outside of the process's cgroup namespace.
  if ((path + "/").find("/../") != std::string::npos) return "";
  return Exists(hierarchy.mount_point + path + "/cgroup.procs") ? path : "";
}

uint64_t LimitOfGroup(const std::string& folder, bool is_v1) {
  if (!is_v1) {
    // Above `high` the kernel slows the group down.
    return std::min(ParseLimit(ReadText(folder + "/memory.max")),
                    ParseLimit(ReadText(folder + "/memory.high")));
  }
  return ParseLimit(ReadText(folder + "/memory.limit_in_bytes"));
}

// The least limit of a v1 group and all around it, mounted or not.
uint64_t HierarchicalLimit(const std::string& folder) {
  const std::string text = ReadText(folder + "/memory.stat");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = Take(&rest, '\n');
    if (Take(&line, ' ') == "hierarchical_memory_limit") {
      return ParseLimit(line);
    }
  }
  return UINT64_MAX;
}

uint64_t ResourceLimit(int resource) {
  rlimit limit{};
  // RLIM_INFINITY is the largest number.
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0
             ? limit.rlim_cur
             : UINT64_MAX;
}

}  // namespace

uint64_t ReadMemoryLimit(const MemoryLimitSources& sources) {
  uint64_t limit = sources.other_limit;
  Hierarchy hierarchy = FindGroup(ReadText(sources.root + "/proc/self/cgroup"));
  if (hierarchy.group.empty()) return limit;
  if (!FindMount(sources.root, "", &hierarchy) &&
      !FindMount(sources.root, ReadText(sources.root + "/proc/self/mountinfo"),
                 &hierarchy)) {
    return limit;
  }
  std::string path = PathInMount(hierarchy);
  if (hierarchy.is_v1) {
    limit = std::min(limit, HierarchicalLimit(hierarchy.mount_point + path));
  }
  while (true) {
    limit = std::min(
        limit, LimitOfGroup(hierarchy.mount_point + path, hierarchy.is_v1));
    if (path.empty()) return limit;
    path.erase(path.rfind('/'));
  }
}

uint64_t MemoryLimit() {
  static constinit ProcessWide<const uint64_t> limit;
  return limit.Get([] {
    MemoryLimitSources sources;
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) {
      sources.other_limit =
          static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
    }
    sources.other_limit =
        std::min({sources.other_limit, ResourceLimit(RLIMIT_AS),
                  ResourceLimit(RLIMIT_DATA)});
    return std::make_unique<const uint64_t>(
        std::max<uint64_t>(ReadMemoryLimit(sources), 1));
  });
}

}  // namespace varve
