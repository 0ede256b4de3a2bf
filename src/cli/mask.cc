// tpuc mask: the block map of a kernel's masks, as text and as SVG.
//
//   mask M of kernel splash: 4096 x 4096, blocks B of 1024 x 2048
//   o .
//   o .
//   # o
//   # o
#include "backend/kernel/mask.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/cli/commands.h"
#include "src/cli/flags.h"
#include "src/cli/kernel_file.h"
#include "src/cli/modules.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

using kernel::BlockTables;

constexpr int64_t kMostDrawn = 256;  // blocks a side in text

struct Counts {
  int64_t kinds[3] = {0, 0, 0};
  int64_t wanted = 0;                     // elements that the mask lets through
  std::vector<int64_t> uses, set, first;  // of each pattern
};

Counts CountBlocks(const BlockTables& t) {
  Counts c;
  const int64_t area = t.block_rows * t.block_cols;
  for (const std::vector<uint8_t>& p : t.patterns) {
    c.set.push_back(std::count(p.begin(), p.end(), 1));
  }
  c.uses.assign(t.patterns.size(), 0);
  c.first.assign(t.patterns.size(), -1);
  for (size_t b = 0; b < t.kind.size(); ++b) {
    ++c.kinds[t.kind[b]];
    if (t.kind[b] == 2) c.wanted += area;
    const int32_t pattern = t.pattern[b];
    if (pattern < 0) continue;
    c.wanted += c.set[pattern];
    if (c.uses[pattern]++ == 0) c.first[pattern] = static_cast<int64_t>(b);
  }
  return c;
}

std::string MaskText(const kernel::Kernel& k, const kernel::Blocks& b) {
  const BlockTables& t = *b.tables;
  const kernel::Mask& m = k.masks[b.mask];
  std::string text =
      absl::StrCat("mask ", m.name, " of kernel ", k.name, ": ", m.rows, " x ", m.cols, ", blocks ",
                   b.name, " of ", b.block_rows, " x ", b.block_cols, "\n");
  if (t.rows > kMostDrawn || t.cols > kMostDrawn) {
    absl::StrAppend(&text, t.rows, " x ", t.cols, " blocks are too many to draw here: --svg\n");
  } else {
    for (int64_t i = 0; i < t.rows; ++i) {
      for (int64_t j = 0; j < t.cols; ++j) {
        absl::StrAppend(&text, j > 0 ? " " : "", std::string(1, ".o#"[t.kind[i * t.cols + j]]));
      }
      text += '\n';
    }
  }
  const Counts c = CountBlocks(t);
  const int64_t area = t.block_rows * t.block_cols;
  const int64_t active = c.kinds[1] + c.kinds[2];
  absl::StrAppend(&text, t.rows * t.cols, " blocks: ", c.kinds[2], " full (#), ", c.kinds[1],
                  " mixed (o), ", c.kinds[0], " empty (.); ", active, " active, at most ",
                  t.grid_width, " in a row\n");
  for (size_t p = 0; p < t.patterns.size() && p < 64; ++p) {
    absl::StrAppend(
        &text, "pattern ", p, ": ", c.uses[p], c.uses[p] == 1 ? " block" : " blocks", ", first (",
        c.first[p] / t.cols, ", ", c.first[p] % t.cols, "), ",
        absl::StrFormat("%.1f", 100.0 * static_cast<double>(c.set[p]) / static_cast<double>(area)),
        " % set\n");
  }
  if (t.patterns.size() > 64) absl::StrAppend(&text, t.patterns.size(), " patterns in all\n");
  absl::StrAppend(
      &text, "computed ", active * area, " scores a head, needed ", c.wanted, " (",
      absl::StrFormat("%.1f", 100.0 * static_cast<double>(c.wanted) /
                                  static_cast<double>(std::max<int64_t>(1, active * area))),
      " %), dense ", m.rows * m.cols, "\n");
  return text;
}

std::string MaskSvg(const kernel::Kernel& k, const kernel::Blocks& b) {
  const BlockTables& t = *b.tables;
  // About 800 units wide, blocks in the proportions of their sizes.
  const double unit = 800.0 / static_cast<double>(k.masks[b.mask].cols);
  const double w = unit * static_cast<double>(t.block_cols);
  const double h = unit * static_cast<double>(t.block_rows);
  const double width = w * static_cast<double>(t.cols), height = h * static_cast<double>(t.rows);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.6g %.6g\" width=\"%.6g\" "
      "height=\"%.6g\" font-family=\"sans-serif\" text-anchor=\"middle\">\n"
      "<rect width=\"%.6g\" height=\"%.6g\" fill=\"#f4f4f4\"/>\n",
      width, height, width, height, width, height);
  for (int64_t i = 0; i < t.rows; ++i) {
    for (int64_t j = 0; j < t.cols; ++j) {
      const int64_t block = i * t.cols + j;
      if (t.kind[block] == 0) continue;
      const double x = w * static_cast<double>(j), y = h * static_cast<double>(i);
      absl::StrAppendFormat(&svg,
                            "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" "
                            "fill=\"%s\" stroke=\"white\" stroke-width=\"%.3g\"/>\n",
                            x, y, w, h, t.kind[block] == 2 ? "#2a6fb0" : "#9cc4e8",
                            std::min(w, h) / 40);
      if (t.pattern[block] < 0 || t.rows * t.cols > 4096) continue;
      absl::StrAppendFormat(&svg, "<text x=\"%.6g\" y=\"%.6g\" font-size=\"%.6g\">%d</text>\n",
                            x + w / 2, y + h / 2 + std::min(w, h) / 8, std::min(w, h) / 3,
                            t.pattern[block]);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace

int MaskCommand(const Args& args) {
  CLI::App app("Draws which blocks of each mask of a kernel file are full, mixed and empty.",
               "mask");
  std::string file, svg;
  std::vector<std::string> set;
  app.add_option("FILE", file, "file.tk, or - for standard input")->required();
  app.add_option("--svg", svg, "also as SVG; mixed blocks carry the number of their pattern");
  app.add_option("--set", set, "kernel parameters: a=1,b=2")
      ->delimiter(',')
      ->allow_extra_args(false);
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  DiagSink diags;
  CompileOptions options;
  if (!ParseSettings(set, &options.set, &options.set_words, &diags) ||
      !CheckOutput(svg, {file}, &diags)) {
    return console.Finish(diags);
  }
  auto source = ReadSource(file, &diags);
  if (!source) return console.Finish(diags);
  auto program = ReadKernels(source, options.set, options.set_words, &diags);
  if (!program) return console.Finish(diags);
  std::string text, drawing;
  int maps = 0;
  for (const kernel::Kernel& k : program->kernels) {
    for (const kernel::Blocks& b : k.blocks) {
      absl::StrAppend(&text, maps > 0 ? "\n" : "", MaskText(k, b));
      if (maps++ == 0) drawing = MaskSvg(k, b);
    }
  }
  if (maps == 0) {
    diags.Add(DiagCode::kUsage, absl::StrCat(file, " has no blocks of a mask"));
    return console.Finish(diags);
  }
  if (!svg.empty() && maps > 1) {
    diags.Add(DiagCode::kUsage, absl::StrCat("--svg takes one map, ", file, " has ", maps));
  } else if (!svg.empty()) {
    WriteFile(svg, drawing, &diags);
  }
  if (!diags.has_errors()) PrintResult(text);
  return console.Finish(diags);
}

}  // namespace tpuc::cli
