// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Lines of name=value, as DB::SetOptions has them, OPTIONS files, options from
// one text, and the text of ablations. They are taken or refused by name.

#include <map>
#include <string>

#include "db/option_files/options_document.h"
#include "db/option_files/options_lines.h"
#include "db/options/options_check.h"
#include "db/options/options_update.h"
#include "experimental/ablation.h"
#include "test/fuzz/fuzz.h"
#include "varve/convert.h"
#include "varve/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  const std::string text = Bytes(data, size).ToString();
  AblationOptions ablation;
  if (ablation.Parse(text).ok()) {
    AblationOptions again;
    Require(again.Parse(ablation.ToString()).ok(), "it reads what it prints");
    Require(again.ToString() == ablation.ToString(), "and prints the same");
  }
  std::map<std::string, std::string> changes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      changes[line.substr(0, equals)] = line.substr(equals + 1);
    }
    begin = end + 1;
  }
  Options options;
  for (const OptionScope scope :
       {OptionScope::kDatabase, OptionScope::kFamily}) {
    static_cast<void>(UpdateOptions(changes, scope, &options).ok());
  }
  Options read;
  static_cast<void>(GetOptionsFromString({}, Options(), text, &read).ok());
  OptionsDocument document;
  if (ParseOptionsDocument(text, "OPTIONS", &document).ok()) {
    OptionsDocument again;
    Require(ParseOptionsDocument(ToString(document), "OPTIONS", &again).ok(),
            "it reads what it writes");
    KeepOtherLines(document, &again);
    for (const OptionsLine& line : document.database) {
      static_cast<void>(
          ApplyLine({}, OptionSection::kDatabase, line.name, line.value, &read)
              .ok());
    }
  }
  return 0;
}
