// tpuc list chips|passes|ops|isa|diags: the tables that tpuc is made of, one row a line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "backend/chip/chip.h"
#include "backend/isa/isa.h"
#include "passes/pipeline.h"
#include "src/cli/commands.h"
#include "src/cli/kernel_ops.h"
#include "src/ir/hlo.h"
#include "src/ir/op_table.h"

namespace tpuc::cli {
namespace {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

Table Chips() {
  Table t{{"section", "name", "chip", "value", "kind", "source"}, {}};
  // The same number of all chips one below another; every chip has the same names.
  for (const ChipRow& first : BuiltinChip(BuiltinChipNames().front())->rows) {
    for (const std::string& chip : BuiltinChipNames()) {
      for (const ChipRow& r : BuiltinChip(chip)->rows) {
        if (r.section != first.section || r.name != first.name) continue;
        t.rows.push_back({r.section, r.name, chip, r.value, r.kind, r.source});
      }
    }
  }
  return t;
}

Table Passes() {
  Table t{{"pass", "purpose"}, {}};
  for (const PassRow& r : PassTable()) {
    t.rows.push_back({std::string(r.name), std::string(r.purpose)});
  }
  return t;
}

Table Ops() {
  Table t{{"op", "operands", "attributes", "optional"}, {}};
  auto names = [](absl::Span<const AttrId> ids) {
    std::string out;
    for (AttrId id : ids) absl::StrAppend(&out, out.empty() ? "" : ",", AttrName(id));
    return out;
  };
  for (const OpInfo& r : OpTable()) {
    t.rows.push_back({std::string(r.name),
                      absl::StrCat(r.min_operands, r.exact_operands ? "" : "+"), names(r.required),
                      names(r.optional)});
  }
  return t;
}

const char* SlotName(isa::Slot s) {
  switch (s) {
    case isa::Slot::kSalu:
      return "salu";
    case isa::Slot::kValu:
      return "valu";
    case isa::Slot::kEup:
      return "eup";
    case isa::Slot::kVex:
      return "vex";
    case isa::Slot::kPop:
      return "pop";
    case isa::Slot::kLoad:
      return "load";
    case isa::Slot::kStore:
      return "store";
    case isa::Slot::kMisc:
      return "misc";
    case isa::Slot::kMiscStore:
      return "misc store";
  }
  return "";
}

const char* UnitName(isa::Unit u) {
  switch (u) {
    case isa::Unit::kNone:
      return "";
    case isa::Unit::kMxu:
      return "mxu";
    case isa::Unit::kXlu:
      return "xlu";
    case isa::Unit::kEup:
      return "eup";
    case isa::Unit::kV2s:
      return "v2s";
  }
  return "";
}

Table Isa() {
  static constexpr const char* kLatencies[] = {
#define LATENCY(id, text) text,
#include "backend/chip/keys.def"
#undef LATENCY
  };
  static constexpr const char* kIntervals[] = {
#define INTERVAL(id, text) text,
#include "backend/chip/keys.def"
#undef INTERVAL
  };
  Table t{{"mnemonic", "slot", "unit", "result", "sources", "latency", "interval"}, {}};
  for (int i = 0; i < isa::kOpcodeCount; ++i) {
    const isa::OpInfo& o = isa::Info(static_cast<isa::Opcode>(i));
    t.rows.push_back(
        {std::string(o.mnemonic), SlotName(o.slot), UnitName(o.unit),
         std::string(1, isa::ClassLetter(o.dest)), absl::StrCat(o.has_memory ? "@" : "", o.sources),
         kLatencies[static_cast<int>(o.latency)], kIntervals[static_cast<int>(o.interval)]});
  }
  return t;
}

Table Diags() {
  Table t{{"code", "severity", "title"}, {}};
  for (const DiagInfo& d : DiagTable()) {
    const char* severity = d.severity == Severity::kError     ? "error"
                           : d.severity == Severity::kWarning ? "warning"
                                                              : "note";
    t.rows.push_back({std::string(d.code), severity, std::string(d.title)});
  }
  std::stable_sort(t.rows.begin(), t.rows.end(), [](auto& a, auto& b) { return a[0] < b[0]; });
  return t;
}

std::string Text(const Table& t) {
  std::vector<size_t> width(t.columns.size());
  auto widen = [&](const std::vector<std::string>& row) {
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  };
  widen(t.columns);
  for (const auto& row : t.rows) widen(row);
  std::string out;
  auto line = [&](const std::vector<std::string>& row) {
    std::string s;
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(&s, row[c], std::string(width[c] + 2 - row[c].size(), ' '));
    }
    s.erase(s.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, s, "\n");
  };
  line(t.columns);
  for (const auto& row : t.rows) line(row);
  return out;
}

std::string Json(const std::string& name, const Table& t) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : t.rows) {
    nlohmann::json r;
    for (size_t c = 0; c < row.size(); ++c) r[t.columns[c]] = row[c];
    rows.push_back(std::move(r));
  }
  return nlohmann::json{{"schema", "tpuc.list/1"}, {"table", name}, {"rows", rows}}.dump(1) + "\n";
}

}  // namespace

int ListCommand(const Args& args) {
  static constexpr struct {
    const char* name;
    Table (*make)();
  } kTables[] = {
      {"chips", Chips}, {"passes", Passes}, {"ops", Ops}, {"isa", Isa}, {"diags", Diags}};
  CLI::App app("Prints one of tpuc's tables: chips, passes, ops, isa, diags, kernel-ops.", "list");
  std::string table;
  bool json = false;
  app.add_option("TABLE", table, "chips, passes, ops, isa, diags or kernel-ops")->required();
  std::string chip_name = "v6e";
  app.add_option("--chip", chip_name, "whose cycles kernel-ops shows");
  app.add_flag("--json", json, "as one JSON object");
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  for (const auto& t : kTables) {
    if (table != t.name) continue;
    PrintResult(json ? Json(table, t.make()) : Text(t.make()));
    return kDone;
  }
  DiagSink diags;
  if (table == "kernel-ops") {
    const Chip* chip = BuiltinChip(chip_name);
    if (chip == nullptr) {
      CheckName("chip", chip_name, BuiltinChipNames(), &diags);
      return console.Finish(diags);
    }
    const Table t{{"operation", "type", "cycles a register", "bound by"}, KernelOps(*chip)};
    PrintResult(json ? Json(table, t) : Text(t));
    return kDone;
  }
  CheckName("table", table, {"chips", "passes", "ops", "isa", "diags", "kernel-ops"}, &diags);
  return console.Finish(diags);
}

}  // namespace tpuc::cli
