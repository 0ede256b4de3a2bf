// --dump-to: the text of every stage as a file, named as XLA names its dumps, without time stamps.
//
//   module_0001.jit_f.0007.tpuc.after_fusion.before_multi-output-fusion.txt
//   module_0001.jit_f.multiply_reduce_fusion-02-bundles.txt
//   index.json
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/diag/diag.h"

namespace tpuc {

class Dumps {
 public:
  // `pass_re`: only passes of which it matches a part are written; "": all.
  Dumps(std::string directory, std::string module, std::string pass_re)
      : directory_(std::move(directory)),
        module_(std::move(module)),
        pass_re_(std::move(pass_re)) {}
  bool enabled() const { return !directory_.empty(); }
  // After pass number `number` (0: before the first).
  void AddPass(int number, const std::string& after, std::string text);
  void AddKernel(const std::string& kernel, int number, const std::string& step, std::string text);
  // Writes all files and index.json. False where one cannot be written.
  bool Write(DiagSink* diags);

 private:
  struct Stage {
    int number;
    std::string after, text;
  };
  std::string directory_, module_, pass_re_;
  std::vector<Stage> passes_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace tpuc
