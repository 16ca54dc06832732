#pragma once

/// Reads the arguments of a run from a launch script, or from the text of a command line:
///
///   GPT_ARGS=(--num-layers 96 --seq-length ${SEQ:-2048})
///   torchrun --nnodes 16 --nproc_per_node 8 pretrain_gpt.py ${GPT_ARGS[@]}
///
/// The command is the last one that names a Python file or module and gives it arguments that say something
/// about the training, or else the last one that gives it any. Of several, one whose file is named for
/// training counts (pretrain_gpt.py). Text that is nothing but arguments, and files that only assign arrays
/// of arguments, are read as well. Commands in here-documents, in `bash -c "..."`, in `ssh`, `sbatch --wrap`
/// and `eval` are found; what `echo` prints is none.
///
/// Assignments of literals, arrays and their elements, defaults (${TP:-8}, ${TP:=8}, [ -z $TP ] && TP=8) and
/// whole-number arithmetic are followed, in the order of the file, and so are branches whose condition is
/// known ([ $TP -gt 1 ], case $SIZE in 7b)): shell_condition.h. Loops are read round by round, with `break`
/// and `continue`, as long as it is known that another round runs: `for` over known words, for ((I = 0; I <
/// 4; I++)), `while` and `until`. The commands of a function are read where it is called, with the arguments
/// of the call as $1 and so on; one that is called with "$@" alone has those of the script. What a subshell,
/// a pipeline or a command before `&` assigns is gone behind it (shell_jobs.h), `unset` leaves no value,
/// `shift` and `set --` change the arguments, `getopts` takes them apart where they are known, `read` and
/// `mapfile` take lines of a here-document, a here-string or < <(...), also of the loop around them
/// (shell_input.h), `local -n` gives a variable another name, IFS separates words, and the script ends with
/// an `exit` that certainly runs, or under `set -e` with a command that certainly fails, as a function does
/// with a `return`. Values are cut, replaced and sliced (${X%b}, ${X/a/b}, ${X^^}, ${X:0:2}:
/// shell_pattern.h), and braces make several words of one ({1..4}: shell_braces.h). The output of functions,
/// conditions, `echo`, and what takes it apart in $(...) is followed (shell_output.h). Nothing is executed.
/// Whatever only a shell could tell is kept as Unresolved: a variable that is not assigned, or is assigned
/// in a branch that may run; $1; $(...); a word that looks like the command of a training. A variable in
/// `set` has that value throughout. The keys of an associative array are taken in alphabetical order, which
/// a note says where there are several.
///
/// The world is that of torchrun, deepspeed, accelerate, srun, sbatch, mpirun or #SBATCH: launch_world.h.
///
/// Errors  script_syntax (shell_words.h), a block that does not end, and more than 200 subshells, loops and
///         calls one in the other; bare_bracket: a bracket without quotes among the arguments of a Python
///         file; run_without_arguments; arguments_apart: arguments that begin a command of their own, since
///         the line before does not go on; those of launch_mistakes.h; run_file_size: more than a million
///         commands, where functions or loops repeat others.

#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

RunArguments read_run_script(std::string_view text, const RunVariables& set);

}  // namespace verify
