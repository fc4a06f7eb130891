// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options as lines of an OPTIONS file, and back.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/option_files/options_document.h"
#include "db/options/rocksdb_options.h"
#include "varve/convert.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Returns a line for each option of the section that has a text.
OptionsLines LinesOf(OptionSection section, const Options& options);
OptionsDocument::Family FamilyLinesOf(const std::string& name,
                                      const Options& options);

// Sets the option from a line's name and value, which can be in braces.
// Returns InvalidArgument, and changes nothing, for a value that is not of the
// option's type, and for an unknown name unless `config` passes over it. A
// family has the options of its tables, too.
Status ApplyLine(const ConfigOptions& config, OptionSection section,
                 const std::string& name, std::string_view value,
                 Options* options);

// Returns the section of a name that is not in any: the database's if it has
// such an option, and otherwise the family's.
OptionSection SectionOfName(std::string_view name);

// Adds to *document what `earlier` has of options that the engine lacks. Leaves
// out RocksDB's directory for logs, which has none of the engine's.
void KeepOtherLines(const OptionsDocument& earlier, OptionsDocument* document);

// Returns the name of an object: "Name" is one, and so is "id=Name;...".
std::string ObjectName(std::string_view value);

// Splits "name=value;name={...}". Removes the outer braces of values. Returns
// InvalidArgument for text of another form.
using OptionPairs = std::vector<std::pair<std::string, std::string>>;
Status SplitOptions(std::string_view text, OptionPairs* pairs);

}  // namespace varve
