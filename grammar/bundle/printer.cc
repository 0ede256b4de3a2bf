// Text of programs: one statement a line, the same statements for bundles and LLO up to the
// functions, whose bodies are bundles `7: { a ;; b }` or blocks of one instruction a line.
#include "grammar/bundle/printer.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grammar/bundle/inst_text.h"
#include "grammar/bundle/lexer.h"

namespace tpuc::bundle {
namespace {

const char* MemoryName(isa::Memory memory) {
  switch (memory) {
    case isa::Memory::kHbm:
      return "hbm";
    case isa::Memory::kVmem:
      return "vmem";
    case isa::Memory::kSmem:
      return "smem";
    case isa::Memory::kSync:
      return "sync";
  }
  return "?";
}

void PrintPort(const char* what, const isa::Port& p, std::string* out) {
  absl::StrAppend(out, what, " ", Quote(p.name), " ", Quote(p.shape), " buffer=", p.buffer);
  if (p.alias >= 0) absl::StrAppend(out, " alias=", p.alias);
  *out += "\n";
}

void PrintConstant(const isa::Constant& c, std::string* out) {
  absl::StrAppend(out, "constant buffer=", c.buffer, " ");
  switch (c.kind) {
    case isa::Constant::Kind::kSplat:
      absl::StrAppend(out, "splat ", absl::StrFormat("0x%08x", c.splat), "\n");
      return;
    case isa::Constant::Kind::kIota:
      absl::StrAppend(out, "iota ", absl::StrFormat("0x%08x", c.splat), "\n");
      return;
    case isa::Constant::Kind::kData: {
      *out += "data {\n";
      std::string encoded = absl::Base64Escape(
          absl::string_view(reinterpret_cast<const char*>(c.data.data()), c.data.size()));
      for (size_t i = 0; i < encoded.size(); i += 96) {
        absl::StrAppend(out, absl::string_view(encoded).substr(i, 96), "\n");
      }
      *out += "}\n";
      return;
    }
  }
}

// Everything of a program but its functions.
void PrintShell(const isa::Program& p, std::string* out) {
  absl::StrAppend(out, "module ", Quote(p.module), "\noptions ", Quote(p.options), "\nchip ",
                  Quote(p.chip_name), " {{{\n", p.chip_text);
  if (!p.chip_text.empty() && p.chip_text.back() != '\n') *out += "\n";
  *out += "}}}\n";
  for (const isa::Buffer& b : p.buffers) {
    absl::StrAppend(out, "buffer ", Quote(b.name), " ", MemoryName(b.memory), " at=", b.offset,
                    " bytes=", b.bytes, " shape=", Quote(b.shape), " from=", b.from, " to=", b.to,
                    "\n");
  }
  for (const isa::Port& i : p.inputs) PrintPort("input", i, out);
  for (const isa::Port& o : p.outputs) PrintPort("output", o, out);
  for (const isa::Constant& c : p.constants) PrintConstant(c, out);
  for (const isa::Copy& c : p.copies) {
    absl::StrAppend(out, "copy ", Quote(c.name), " bytes=", c.bytes,
                    " cross_program=", c.cross_program ? 1 : 0, " start=", c.start,
                    " done=", c.done, "\n");
  }
  for (size_t i = 0; i < p.sources.size(); ++i) {
    const isa::SourceEntry& s = p.sources[i];
    absl::StrAppend(out, "source ", i, " ", Quote(s.hlo), " ", Quote(s.op_name), " ",
                    Quote(s.place), "\n");
  }
}

void PrintStrings(const char* name, const std::vector<std::string>& list, std::string* out) {
  absl::StrAppend(out, "  ", name);
  for (const std::string& s : list) absl::StrAppend(out, " ", Quote(s));
  *out += "\n";
}

void PrintInfo(const isa::KernelInfo& i, std::string* out) {
  PrintStrings("op_names", i.op_names, out);
  PrintStrings("ops", i.ops, out);
  absl::StrAppend(out, "  info grid_steps=", i.grid_steps, " schedule_cycles=", i.schedule_cycles,
                  " spills=", i.spills, " fills=", i.fills, " temp_loads=", i.temp_loads,
                  " temp_stores=", i.temp_stores, " max_live_vregs=", i.max_live_vregs,
                  " vmem_bytes=", i.vmem_bytes, " flops=", i.flops);
  if (i.hbm_read_bytes != 0 || i.hbm_written_bytes != 0) {
    absl::StrAppend(out, " hbm_read_bytes=", i.hbm_read_bytes,
                    " hbm_written_bytes=", i.hbm_written_bytes);
  }
  *out += "\n";
  for (const isa::LoopInfo& l : i.loops) {
    absl::StrAppend(out, "  loop first=", l.first_bundle, " last=", l.last_bundle,
                    " trips=", l.trips, " mii=", l.mii, " ii=", l.ii, " stages=", l.stages);
    if (!l.bound.empty()) absl::StrAppend(out, " bound ", Quote(l.bound));
    *out += "\n";
  }
  for (const isa::DotInfo& d : i.dots) {
    absl::StrAppend(out, "  dot source=", d.source, " m=", d.m, " k=", d.k, " n=", d.n,
                    " k_padded=", d.k_padded, " n_padded=", d.n_padded, "\n");
  }
  if (!i.grid.axes.empty()) {
    absl::StrAppend(out, "  grid at=", i.grid.first_bundle);
    for (size_t a = 0; a < i.grid.axes.size(); ++a) {
      absl::StrAppend(out, " ", Quote(i.grid.axes[a]), " extent=", i.grid.extents[a]);
    }
    *out += "\n";
  }
  for (const isa::Local& l : i.locals) {
    absl::StrAppend(out, "  local ", Quote(l.name), " ", MemoryName(l.memory), " at=", l.offset,
                    " size=", l.size, " semaphore=", l.semaphore ? 1 : 0, "\n");
  }
}

}  // namespace

std::string PrintFunction(const isa::Function& f, int number) {
  std::string out = number < 0 ? std::string("tlp") : absl::StrCat("kernel ", number);
  absl::StrAppend(&out, " ", Quote(f.name), " args=", f.args, " {\n");
  PrintInfo(f.info, &out);
  for (size_t i = 0; i < f.bundles.size(); ++i) {
    absl::StrAppend(&out, "  ", i, ": {");
    const char* separator = " ";
    for (const isa::Inst& inst : f.bundles[i].insts) {
      absl::StrAppend(&out, separator, PrintInst(inst, RegisterForm::kPhysical));
      separator = " ;; ";
    }
    out += " }\n";
  }
  out += "}\n";
  return out;
}

std::string PrintBundles(const isa::Program& program) {
  std::string out = "tpuc.bundles 1\n";
  PrintShell(program, &out);
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    out += PrintFunction(program.kernels[i], static_cast<int>(i));
  }
  out += PrintFunction(program.tlp, -1);
  return out;
}

std::string PrintLlo(const llo::Function& f) {
  std::string out =
      absl::StrCat("llo ", Quote(f.name), " args=", f.args, " steps=", f.grid_steps, " {\n");
  PrintInfo(f.info, &out);
  for (const llo::Allocation& a : f.allocations) {
    absl::StrAppend(&out, "  allocation ", Quote(a.name), " ", MemoryName(a.memory),
                    " at=", a.offset, " size=", a.size, "\n");
  }
  for (const llo::Loop& l : f.loops) {
    absl::StrAppend(&out, "  blocks first=", l.first, " last=", l.last, " trips=", l.trips,
                    " grid=", l.is_grid ? 1 : 0, l.latch ? " latch=1" : "", "\n");
  }
  for (size_t b = 0; b < f.blocks.size(); ++b) {
    const llo::Block& block = f.blocks[b];
    absl::StrAppend(&out, "  block ", b, " ", Quote(block.label), " trips=", block.trips,
                    " grid=", block.in_grid_loop ? 1 : 0, "\n");
    for (const isa::Inst& inst : block.insts) {
      absl::StrAppend(&out, "    ", PrintInst(inst, RegisterForm::kVirtual), "\n");
    }
  }
  out += "}\n";
  return out;
}

std::string PrintLlo(const llo::Program& program) {
  std::string out = "tpuc.llo 1\n";
  PrintShell(program.shell, &out);
  for (const llo::Function& f : program.kernels) out += PrintLlo(f);
  out += PrintLlo(program.tlp);
  return out;
}

}  // namespace tpuc::bundle
