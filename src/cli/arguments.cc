#include "src/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tpuc::cli {
namespace {

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& l : o->get_lnames()) names.push_back("--" + l);
    for (const std::string& s : o->get_snames()) names.push_back("-" + s);
  }
  return names;
}

void ReportUnknown(const CLI::App& app, const std::string& word, DiagSink* diags) {
  std::string name = word.substr(0, word.find('='));
  bool flag = absl::StartsWith(name, "-") && name.size() > 1;
  Diag& d = diags->Add(DiagCode::kUsage, flag ? absl::StrCat("unknown option '", name, "'")
                                              : absl::StrCat("unexpected argument '", word, "'"));
  std::string nearest = flag ? NearestName(name, FlagNames(app)) : "";
  d.hint = nearest.empty() ? absl::StrCat("tpuc ", app.get_name(), " --help lists the options")
                           : absl::StrCat("did you mean '", nearest, "'?");
}

}  // namespace

bool CheckName(absl::string_view what, const std::string& word,
               const std::vector<std::string>& known, DiagSink* diags) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return true;
  Diag& d = diags->Add(DiagCode::kUnknownName, absl::StrCat("unknown ", what, " '", word, "'"));
  std::string nearest = NearestName(word, known);
  d.hint = !nearest.empty()     ? absl::StrCat("did you mean '", nearest, "'?")
           : known.size() <= 24 ? absl::StrCat("known are ", absl::StrJoin(known, ", "))
                                : "";
  return false;
}

void NotBuilt(absl::string_view what, DiagSink* diags) {
  diags->Add(DiagCode::kNotBuilt, absl::StrCat(what, " is not built yet"));
}

bool ParseArguments(CLI::App* app, const Args& args, Console* console, int* exit_code) {
  std::string color = "auto", diagnostics = "text";
  app->add_option("--color", color, "colour of messages: auto, always, never");
  app->add_option("--diagnostics", diagnostics, "form of messages: text, json");
  app->set_help_flag("-h,--help", "this text");
  DiagSink diags;
  *exit_code = kCommandLine;
  for (const std::string& a : args) {
    // CLI11 would take the next argument for the value.
    if (a.size() > 3 && absl::StartsWith(a, "--") && a.find('=') == a.size() - 1) {
      diags.Add(DiagCode::kUsage, absl::StrCat("option '", a, "' has an empty value"));
    }
  }
  if (!diags.has_errors()) {
    try {
      Args reversed(args.rbegin(), args.rend());
      app->parse(reversed);
    } catch (const CLI::CallForHelp&) {
      PrintResult(app->help());
      *exit_code = kDone;
      return false;
    } catch (const CLI::ExtrasError&) {
      for (const std::string& word : app->remaining()) ReportUnknown(*app, word, &diags);
    } catch (const CLI::ParseError& e) {
      diags.Add(DiagCode::kUsage, e.what()).hint =
          absl::StrCat("tpuc ", app->get_name(), " --help lists the options");
    }
  }
  CheckName("value of --color", color, {"auto", "always", "never"}, &diags);
  CheckName("value of --diagnostics", diagnostics, {"text", "json"}, &diags);
  console->SetColor(color);
  console->json_diagnostics = diagnostics == "json";
  if (!diags.has_errors()) return true;
  console->Print(diags);
  return false;
}

}  // namespace tpuc::cli
