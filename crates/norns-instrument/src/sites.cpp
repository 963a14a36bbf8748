// The plug-in for clang that puts sites into a program: points at which the runtime can be asked to
// look. The orders of an aspect file say where.
//
// `site.hpp` has what a site is, `wait_loops.hpp` the sites of loops that wait on a condition, `tracked.hpp` those
// of tracked runs.
//
// The orders come from the file that the environment variable NORNS_ORDERS names, one a line, fields
// separated by tabs: its number, `before` or `after`, what, target, then the event's name and fields.
// Each order that found its target adds a line with its number to the file NORNS_ORDERS_MET, if that is
// set; names that an order could have meant are added with `?`.
//
// With NORNS_WAIT_LOOPS set, loops that wait on a condition get their sites too; with NORNS_TRACK_SITES set to
// `branches` or `accesses`, branches do, and with the second also accesses.
//
// The plug-in runs at the start of the pipeline, so that sites are the same at every level of
// optimisation. Works with LLVM 15 to 19. Guarded builds (NORNS_GUARD_PLACES, `guarded.hpp`) get theirs at its end.

#include "guarded.hpp"
#include "site.hpp"
#include "tracked.hpp"
#include "wait_loops.hpp"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

using namespace llvm;
using norns::Kind;
using norns::SiteWriter;

namespace {

enum class What { Call, Body, ReadGlobal, WriteGlobal, Line };

struct Order {
    std::string number;
    bool after;
    What what;
    std::string target;
    std::string event;
    // As the aspect file has them: `word`, `#0`, `*#return`, `#address`.
    std::vector<std::string> fields;
};

// Whether a name matches a pattern in which `*` stands for any characters.
bool matches(StringRef pattern, StringRef name) {
    if (pattern.empty())
        return name.empty();
    if (pattern[0] == '*') {
        for (size_t i = 0; i <= name.size(); i++)
            if (matches(pattern.substr(1), name.substr(i)))
                return true;
        return false;
    }
    return !name.empty() && pattern[0] == name[0] && matches(pattern.substr(1), name.substr(1));
}

// A C++ name as people write it, without the parameters, its result and the arguments of templates.
std::string bare(std::string name) {
    int depth = 0;
    std::string out;
    for (char c : name) {
        if (c == '<')
            depth++;
        else if (c == '>' && depth > 0)
            depth--;
        else if (depth == 0) {
            if (c == '(')
                break;
            out += c;
        }
    }
    size_t space = out.rfind(' ');
    return space == std::string::npos ? out : out.substr(space + 1);
}

bool names(const Order &order, StringRef mangled) {
    if (matches(order.target, mangled))
        return true;
    std::string whole = demangle(mangled.str());
    if (whole == mangled)
        return false;
    // An overload is named with its parameters.
    if (order.target.find('(') != std::string::npos)
        return matches(order.target, whole);
    return matches(order.target, bare(whole));
}

class Sites {
  public:
    Sites(Module &module, SiteWriter &writer, const std::vector<Order> &orders)
        : module(module), writer(writer), orders(orders), context(module.getContext()) {}

    void run() {
        std::vector<Function *> functions;
        for (Function &function : module)
            if (!function.isDeclaration() && !norns::begins_with(function.getName(), "__norns"))
                functions.push_back(&function);
        for (Function *function : functions)
            for (const Order &order : orders)
                apply(order, *function);
        tell();
    }

  private:
    Module &module;
    SiteWriter &writer;
    const std::vector<Order> &orders;
    LLVMContext &context;
    std::set<std::string> met;
    std::set<std::string> seen_names;

    void apply(const Order &order, Function &function) {
        switch (order.what) {
        case What::Body:
            note_name(function.getName());
            if (names(order, function.getName()))
                body(order, function);
            return;
        case What::Call:
            for (Instruction *instruction : instructions(function))
                if (auto *call = dyn_cast<CallBase>(instruction))
                    if (auto *callee =
                            dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts())) {
                        if (callee->isIntrinsic())
                            continue;
                        note_name(callee->getName());
                        if (names(order, callee->getName()))
                            this->call(order, *call, *callee);
                    }
            return;
        case What::ReadGlobal:
        case What::WriteGlobal:
            for (Instruction *instruction : instructions(function))
                access(order, *instruction);
            return;
        case What::Line:
            line(order, function);
            return;
        }
    }

    std::vector<Instruction *> instructions(Function &function) {
        std::vector<Instruction *> all;
        for (BasicBlock &block : function)
            for (Instruction &instruction : block)
                if (!writer.is_ours(instruction))
                    all.push_back(&instruction);
        return all;
    }

    void body(const Order &order, Function &function) {
        std::vector<Instruction *> points;
        if (!order.after) {
            points.push_back(norns::beginning(function));
        } else {
            for (BasicBlock &block : function)
                if (isa<ReturnInst>(block.getTerminator()) || isa<ResumeInst>(block.getTerminator()))
                    points.push_back(block.getTerminator());
        }
        for (Instruction *point : points) {
            Value *result = nullptr;
            if (auto *end = dyn_cast<ReturnInst>(point))
                result = end->getReturnValue();
            std::vector<Value *> arguments;
            for (Argument &argument : function.args())
                arguments.push_back(&argument);
            DebugLoc place = point->getDebugLoc();
            if (DISubprogram *program = function.getSubprogram(); program && !place)
                place = DILocation::get(context, program->getScopeLine(), 0, program);
            emit(order, point, place, function.getSubprogram(), arguments, result, nullptr, 0);
        }
    }

    void call(const Order &order, CallBase &call, Function &callee) {
        std::vector<Value *> arguments(call.arg_begin(), call.arg_end());
        Instruction *point = &call;
        Value *result = nullptr;
        if (order.after) {
            if (call.isMustTailCall() || call.doesNotReturn())
                return;
            if (auto *invoke = dyn_cast<InvokeInst>(&call)) {
                BasicBlock *next = invoke->getNormalDest();
                if (!next->getSinglePredecessor())
                    next = SplitEdge(invoke->getParent(), next);
                point = &*next->getFirstInsertionPt();
            } else if (isa<CallBrInst>(&call)) {
                return;
            } else {
                point = call.getNextNode();
            }
            if (!call.getType()->isVoidTy())
                result = &call;
        }
        emit(order, point, call.getDebugLoc(), callee.getSubprogram(), arguments, result, nullptr, 0);
    }

    // The global variable that an address lies in, directly: not through a pointer.
    GlobalVariable *global_of(Value *address) {
        return dyn_cast<GlobalVariable>(getUnderlyingObject(address));
    }

    bool names_global(const Order &order, GlobalVariable &global) {
        note_name(global.getName());
        if (names(order, global.getName()))
            return true;
        SmallVector<DIGlobalVariableExpression *, 1> expressions;
        global.getDebugInfo(expressions);
        for (DIGlobalVariableExpression *expression : expressions)
            if (matches(order.target, expression->getVariable()->getName()))
                return true;
        return false;
    }

    void access(const Order &order, Instruction &instruction) {
        bool wants_read = order.what == What::ReadGlobal;
        Value *address = nullptr, *value = nullptr;
        Type *type = nullptr;
        if (auto *load = dyn_cast<LoadInst>(&instruction)) {
            if (!wants_read)
                return;
            address = load->getPointerOperand();
            type = load->getType();
            value = order.after ? load : nullptr;
        } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
            if (wants_read)
                return;
            address = store->getPointerOperand();
            type = store->getValueOperand()->getType();
            value = store->getValueOperand();
        } else if (auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
            address = update->getPointerOperand();
            type = update->getType();
            // The new value of an addition is known only by reading it again.
            value = wants_read && order.after ? (Value *)update : nullptr;
        } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
            address = exchange->getPointerOperand();
            type = exchange->getNewValOperand()->getType();
            value = wants_read ? nullptr : exchange->getNewValOperand();
        } else {
            return;
        }
        GlobalVariable *global = global_of(address);
        if (!global || norns::begins_with(global->getName(), "norns.") || !names_global(order, *global))
            return;
        Instruction *point = order.after ? instruction.getNextNode() : &instruction;
        uint64_t size = module.getDataLayout().getTypeStoreSize(type);
        emit(order, point, instruction.getDebugLoc(), nullptr, {}, value, address, size);
    }

    // Sites before or after each stretch of instructions that belong to a source line.
    void line(const Order &order, Function &function) {
        StringRef target(order.target);
        auto [file, number] = target.rsplit(':');
        unsigned wanted = 0;
        if (number.getAsInteger(10, wanted))
            return;
        auto is_there = [&](const Instruction &instruction) {
            const DebugLoc &place = instruction.getDebugLoc();
            if (!place || place.getLine() != wanted || isa<DbgInfoIntrinsic>(instruction))
                return false;
            StringRef name = cast<DIScope>(place.getScope())->getFilename();
            return name == file ||
                   (norns::ends_with(name, file) && norns::ends_with(name.drop_back(file.size()), "/"));
        };
        std::vector<std::pair<Instruction *, DebugLoc>> points;
        for (BasicBlock &block : function) {
            bool inside = !pred_empty(&block);
            for (BasicBlock *before : predecessors(&block))
                inside = inside && is_there(*before->getTerminator());
            Instruction *last = nullptr;
            for (Instruction &instruction : block) {
                if (writer.is_ours(instruction) || isa<DbgInfoIntrinsic>(instruction))
                    continue;
                bool there = is_there(instruction);
                if (there && !inside && !order.after && !isa<PHINode>(instruction))
                    points.push_back({&instruction, instruction.getDebugLoc()});
                if (!there && last && order.after)
                    points.push_back({&instruction, last->getDebugLoc()});
                if (!isa<PHINode>(instruction)) {
                    inside = there;
                    last = there ? &instruction : nullptr;
                }
            }
            // A line that ends with its block: its end is before the jump, unless the next block goes on
            // with it.
            if (last && order.after) {
                bool goes_on = !succ_empty(&block);
                for (BasicBlock *after : successors(&block))
                    goes_on = goes_on && is_there(*after->getFirstNonPHIOrDbg());
                if (!goes_on && !isa<InvokeInst>(last))
                    points.push_back({block.getTerminator(), last->getDebugLoc()});
            }
        }
        for (auto &[point, place] : points)
            emit(order, point, place, nullptr, {}, nullptr, nullptr, 0);
    }

    // The bytes that a pointer of this type points to, after so many steps; 8 if that is unknown.
    unsigned size_behind(DIType *type, unsigned steps) {
        auto plain = [](DIType *type) {
            while (auto *derived = dyn_cast_or_null<DIDerivedType>(type)) {
                unsigned tag = derived->getTag();
                if (tag == dwarf::DW_TAG_pointer_type || tag == dwarf::DW_TAG_reference_type)
                    break;
                type = derived->getBaseType();
            }
            return type;
        };
        for (type = plain(type); steps > 0 && type; steps--) {
            auto *pointer = dyn_cast<DIDerivedType>(type);
            if (!pointer)
                return 8;
            type = plain(pointer->getBaseType());
        }
        uint64_t bits = type ? type->getSizeInBits() : 64;
        return bits == 8 || bits == 16 || bits == 32 ? bits / 8 : 8;
    }

    void emit(const Order &order, Instruction *point, DebugLoc place, DISubprogram *callee,
              const std::vector<Value *> &arguments, Value *result, Value *address, uint64_t size) {
        if (!point)
            return;
        std::string text = order.event + '\0';
        std::vector<Value *> values;
        DITypeRefArray types = callee ? callee->getType()->getTypeArray() : DITypeRefArray(nullptr);
        for (const std::string &field : order.fields) {
            size_t stars = field.find_first_not_of('*');
            StringRef name = StringRef(field).drop_front(stars == std::string::npos ? 0 : stars);
            if (!name.consume_front("#")) {
                text += field + '\0';
                continue;
            }
            Value *value = nullptr;
            unsigned index = 0, bytes = 8;
            if (name == "return") {
                value = result;
                if (types && types.size() > 0)
                    bytes = size_behind(types[0], stars);
            } else if (!name.getAsInteger(10, index)) {
                if (index < arguments.size())
                    value = arguments[index];
                if (types && index + 1 < types.size())
                    bytes = size_behind(types[index + 1], stars);
            } else if (name == "address") {
                value = address;
            } else if (name == "size") {
                value = ConstantInt::get(Type::getInt64Ty(context), size);
            } else if (name == "value") {
                value = result;
                if (!value) {
                    value = address;
                    stars = 1;
                    bytes = size;
                }
            }
            if (!value || !(value->getType()->isPointerTy() || value->getType()->isIntegerTy())) {
                errs() << "norns: warning: " << order.target << " has no " << field
                       << " that is a number or a pointer";
                if (place)
                    errs() << " at " << cast<DIScope>(place.getScope())->getFilename() << ":" << place.getLine();
                errs() << ": no event " << order.event << " there\n";
                return;
            }
            text += "#" + std::string(stars, '*');
            if (stars > 0)
                text += std::to_string(bytes <= 8 ? bytes : 8);
            text += '\0';
            values.push_back(value);
        }
        met.insert(order.number);
        writer.insert(kind_of(order.what), point, place, text, values);
    }

    static Kind kind_of(What what) {
        switch (what) {
        case What::Call:
            return Kind::Call;
        case What::Body:
            return Kind::Body;
        case What::ReadGlobal:
            return Kind::ReadGlobal;
        case What::WriteGlobal:
            return Kind::WriteGlobal;
        case What::Line:
            return Kind::Line;
        }
        llvm_unreachable("every order is of one of these sorts");
    }

    void note_name(StringRef name) {
        std::string whole = demangle(name.str());
        seen_names.insert(whole == name ? whole : bare(whole));
    }

    // Tells norns which orders found something, and the names that others could have meant.
    void tell() {
        const char *path = std::getenv("NORNS_ORDERS_MET");
        if (!path || !*path)
            return;
        std::string text;
        for (const std::string &number : met)
            text += number + "\n";
        for (const std::string &name : seen_names)
            text += "?" + name + "\n";
        int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            return;
        if (write(file, text.data(), text.size()) < 0)
            errs() << "norns: cannot write " << path << "\n";
        close(file);
    }
};

std::vector<Order> read_orders() {
    std::vector<Order> orders;
    const char *path = std::getenv("NORNS_ORDERS");
    if (!path || !*path)
        return orders;
    auto file = MemoryBuffer::getFile(path);
    if (!file) {
        errs() << "norns: cannot read " << path << ": this file is compiled without its sites\n";
        return orders;
    }
    SmallVector<StringRef> lines;
    (*file)->getBuffer().split(lines, '\n', -1, false);
    std::map<std::string, What> kinds = {{"call", What::Call},
                                         {"body", What::Body},
                                         {"read-global", What::ReadGlobal},
                                         {"write-global", What::WriteGlobal},
                                         {"line", What::Line}};
    for (StringRef line : lines) {
        SmallVector<StringRef> parts;
        line.split(parts, '\t');
        if (parts.size() < 5 || !kinds.count(parts[2].str()))
            continue;
        Order order{parts[0].str(), parts[1] == "after", kinds[parts[2].str()], parts[3].str(),
                    parts[4].str(), {}};
        for (size_t i = 5; i < parts.size(); i++)
            order.fields.push_back(parts[i].str());
        orders.push_back(order);
    }
    return orders;
}

struct SitesPass : PassInfoMixin<SitesPass> {
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
        SiteWriter writer(module);
        if (const char *wanted = std::getenv("NORNS_WAIT_LOOPS"); wanted && *wanted)
            norns::WaitLoops(module, writer).run();
        std::vector<Order> orders = read_orders();
        if (!orders.empty())
            Sites(module, writer, orders).run();
        if (const char *wanted = std::getenv("NORNS_TRACK_SITES"); wanted && *wanted)
            norns::TrackedSites(module, writer).run(StringRef(wanted) == "accesses");
        return writer.finish() ? PreservedAnalyses::none() : PreservedAnalyses::all();
    }
    static bool isRequired() { return true; }
};

struct GuardPass : PassInfoMixin<GuardPass> {
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
        const char *list = std::getenv("NORNS_GUARD_PLACES");
        bool changed = list && *list && norns::GuardedSites(module).run(list);
        return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
    }
    static bool isRequired() { return true; }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "norns-sites", "1", [](PassBuilder &builder) {
                builder.registerPipelineStartEPCallback(
                    [](ModulePassManager &passes, OptimizationLevel) { passes.addPass(SitesPass()); });
                builder.registerOptimizerLastEPCallback(
                    [](ModulePassManager &passes, OptimizationLevel) { passes.addPass(GuardPass()); });
            }};
}
