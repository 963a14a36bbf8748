// Sites of a guarded build (`norns guard`): sleeping tests at accesses that could race, and at everything in the
// program's own code that may order threads.
//
// An access site is the C structure
//
//     struct { uint8_t on, is_atomic; uint16_t passed; uint32_t number; };
//
// in the section `norns_guard`. The number is that of the place in the list of NORNS_GUARD_PLACES, one a line, fields
// separated by tabs: number, `read`, `write` or `update`, line, column or 0, file. All copies of an access that
// inlining or unrolling makes have its number. While `on` is not 0, the program calls `__norns_guard_access` before
// the access, with the record, the address, and the size and whether it writes.
//
// Atomic operations, fences, volatile accesses, inline assembler and loops that poll test one byte of the linked
// file, and while that is not 0 call `__norns_guard_order` with an address and what the operation does for others
// (the bits of `Orders`): for what it releases before it, for what it acquires behind it.
//
// The pass runs behind all optimisations, so that a site sleeps at what is left of them and prevents none. Both
// functions keep all registers (`preserve_all`): a site costs a comparison with memory and a branch that is not taken,
// and nothing has to be saved around it. bench/guard measures that.
//
// Left out: accesses in code that the list does not name, and those whose line was lost in an optimisation. A load
// that is polled by recursion, or in a loop whose exit depends on something that changes, is not seen as polled.

#pragma once

#include "bodies.hpp"

#include "llvm/Analysis/CaptureTracking.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace norns {

using namespace llvm;

// What an operation does for the order of threads. `norns-rt/src/guard/site.rs` has the numbers too.
enum Orders : uint32_t {
    Loads = 1,
    Stores = 2,
    Fence = 4,
    Acquires = 8,
    Releases = 16,
    // Not an operation of the language's memory model: it may order, or not.
    Perhaps = 32,
    // By no address that is known.
    Anything = 64,
};

// A place of the list.
struct GuardedPlace {
    uint32_t number;
    bool reads, writes;
    unsigned line, column;
    std::string file;
};

class GuardedSites {
  public:
    explicit GuardedSites(Module &module) : module(module), context(module.getContext()) {}

    // Whether the module was changed.
    bool run(const char *list) {
        if (!read_places(list))
            return false;
        for (Function &function : module)
            if (!function.isDeclaration() && !function.hasFnAttribute(Attribute::Naked) &&
                !function.hasAvailableExternallyLinkage() && !begins(function.getName(), "__norns"))
                look(function);
        if (sites.empty() && !sync)
            return false;
        appendToCompilerUsed(module, sites);
        hand_over();
        return true;
    }

  private:
    Module &module;
    LLVMContext &context;
    std::map<unsigned, std::vector<GuardedPlace>> places;
    // Of all places: two lists have two numbers.
    uint64_t hash = 0xcbf29ce484222325;
    std::vector<GlobalValue *> sites;
    GlobalVariable *sync = nullptr;

    static bool begins(StringRef text, StringRef part) { return text.take_front(part.size()) == part; }

    bool read_places(const char *list) {
        auto file = MemoryBuffer::getFile(list);
        if (!file) {
            errs() << "norns: cannot read " << list << ": this file is compiled without its sites\n";
            return false;
        }
        StringRef text = (*file)->getBuffer();
        for (char c : text)
            hash = (hash ^ uint8_t(c)) * 0x100000001b3;
        SmallVector<StringRef> lines;
        text.split(lines, '\n', -1, false);
        for (StringRef line : lines) {
            SmallVector<StringRef> parts;
            line.split(parts, '\t');
            GuardedPlace place;
            if (parts.size() != 5 || parts[0].getAsInteger(10, place.number) ||
                parts[2].getAsInteger(10, place.line) || parts[3].getAsInteger(10, place.column))
                continue;
            place.reads = parts[1] != "write";
            place.writes = parts[1] != "read";
            place.file = parts[4].str();
            places[place.line].push_back(place);
        }
        return true;
    }

    // Whether one path is the end of the other: the list and the compiler name files from different folders.
    static bool same_file(StringRef one, StringRef other) {
        auto a = sys::path::rbegin(one), a_end = sys::path::rend(one);
        auto b = sys::path::rbegin(other), b_end = sys::path::rend(other);
        while (a != a_end && b != b_end) {
            if (*a == ".") {
                ++a;
            } else if (*b == ".") {
                ++b;
            } else {
                if (*a != *b)
                    return false;
                ++a, ++b;
            }
        }
        return true;
    }

    const GuardedPlace *place_of(const Instruction &instruction, bool writes) const {
        const DebugLoc &at = instruction.getDebugLoc();
        if (!at || at.getLine() == 0)
            return nullptr;
        auto found = places.find(at.getLine());
        if (found == places.end())
            return nullptr;
        StringRef file = cast<DIScope>(at.getScope())->getFilename();
        const GuardedPlace *by_line = nullptr;
        for (const GuardedPlace &place : found->second) {
            if (!(writes ? place.writes : place.reads) || !same_file(place.file, file))
                continue;
            if (place.column == at.getCol() || place.column == 0)
                return &place;
            // An optimisation may keep the line only.
            if (at.getCol() == 0)
                by_line = &place;
        }
        return by_line;
    }

    // Whether other threads may know this memory.
    static bool is_shared(const Value *pointer) {
        const Value *object = getUnderlyingObject(pointer, 12);
        if (auto *global = dyn_cast<GlobalVariable>(object))
            return !global->isConstant() && !global->isThreadLocal();
        if (isa<AllocaInst>(object))
            return PointerMayBeCaptured(object, true, true);
        return true;
    }

    struct Access {
        Instruction *instruction;
        Value *address, *size;
        bool writes;
    };

    struct Order {
        Instruction *instruction;
        // Null: by no address.
        Value *address;
        uint32_t before, after;
    };

    void look(Function &function) {
        std::vector<Access> accesses;
        std::vector<Order> orders;
        const DataLayout &layout = module.getDataLayout();
        Type *word = Type::getInt64Ty(context);
        auto access = [&](Instruction *at, Value *address, Type *type, bool writes) {
            TypeSize size = layout.getTypeStoreSize(type);
            if (!size.isScalable() && is_shared(address))
                accesses.push_back({at, address, ConstantInt::get(word, size.getFixedValue()), writes});
        };
        auto atomic = [&](Instruction *at, Value *address, uint32_t does, AtomicOrdering order) {
            if (!is_shared(address))
                return;
            uint32_t after = 0, before = 0;
            if (does & Loads)
                after = Loads | (isAcquireOrStronger(order) ? Acquires : 0);
            if (does & Stores)
                before = Stores | (isReleaseOrStronger(order) ? Releases : 0);
            orders.push_back({at, address, before, after});
        };
        std::set<Instruction *> polled = polled_in(function);
        for (Instruction &instruction : instructions(function)) {
            Instruction *at = &instruction;
            if (auto *load = dyn_cast<LoadInst>(at)) {
                access(at, load->getPointerOperand(), load->getType(), false);
                if (load->isAtomic())
                    atomic(at, load->getPointerOperand(), Loads, load->getOrdering());
                else if (polled.count(at))
                    orders.push_back({at, nullptr, 0, Loads | Perhaps | Anything});
                else if (load->isVolatile() && is_shared(load->getPointerOperand()))
                    orders.push_back({at, load->getPointerOperand(), 0, Loads | Perhaps});
            } else if (auto *store = dyn_cast<StoreInst>(at)) {
                access(at, store->getPointerOperand(), store->getValueOperand()->getType(), true);
                if (store->isAtomic())
                    atomic(at, store->getPointerOperand(), Stores, store->getOrdering());
                else if (store->isVolatile() && is_shared(store->getPointerOperand()))
                    orders.push_back({at, store->getPointerOperand(), Stores | Perhaps, 0});
            } else if (auto *change = dyn_cast<AtomicRMWInst>(at)) {
                access(at, change->getPointerOperand(), change->getType(), true);
                atomic(at, change->getPointerOperand(), Loads | Stores, change->getOrdering());
            } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(at)) {
                access(at, exchange->getPointerOperand(), exchange->getNewValOperand()->getType(), true);
                atomic(at, exchange->getPointerOperand(), Loads | Stores, exchange->getMergedOrdering());
            } else if (auto *fence = dyn_cast<FenceInst>(at)) {
                bool acquires = isAcquireOrStronger(fence->getOrdering());
                bool releases = isReleaseOrStronger(fence->getOrdering());
                if (fence->getSyncScopeID() != SyncScope::SingleThread)
                    orders.push_back({at, nullptr, releases ? Fence | Releases : 0u, acquires ? Fence | Acquires : 0u});
            } else if (auto *copy = dyn_cast<MemTransferInst>(at)) {
                if (is_shared(copy->getRawSource()))
                    accesses.push_back({at, copy->getRawSource(), copy->getLength(), false});
                if (is_shared(copy->getRawDest()))
                    accesses.push_back({at, copy->getRawDest(), copy->getLength(), true});
            } else if (auto *set = dyn_cast<MemSetInst>(at)) {
                if (is_shared(set->getRawDest()))
                    accesses.push_back({at, set->getRawDest(), set->getLength(), true});
            } else if (auto *call = dyn_cast<CallBase>(at)) {
                bool is_assembler = isa<InlineAsm>(call->getCalledOperand());
                if (is_assembler && call->mayReadOrWriteMemory())
                    orders.push_back({at, nullptr, Stores | Perhaps | Anything, Loads | Perhaps | Anything});
                else if (polled.count(at))
                    orders.push_back({at, nullptr, 0, Loads | Perhaps | Anything});
            }
        }
        for (const Order &order : orders)
            put(order);
        for (const Access &access : accesses)
            if (const GuardedPlace *place = place_of(*access.instruction, access.writes))
                put(access, place->number);
    }

    // Loads and calls that decide alone when a loop is left: what the loop waits for is done by others.
    static std::set<Instruction *> polled_in(Function &function) {
        std::set<Instruction *> found;
        DominatorTree dominators(function);
        LoopInfo loops(dominators);
        for (Loop *loop : loops.getLoopsInPreorder()) {
            SmallVector<BasicBlock *, 8> exits;
            loop->getExitingBlocks(exits);
            for (BasicBlock *block : exits) {
                auto *branch = dyn_cast<BranchInst>(block->getTerminator());
                Value *decides = branch && branch->isConditional() ? branch->getCondition() : nullptr;
                if (auto *several = dyn_cast<SwitchInst>(block->getTerminator()))
                    decides = several->getCondition();
                std::set<Instruction *> here;
                if (decides && waits(decides, *loop, here, 0))
                    found.insert(here.begin(), here.end());
            }
        }
        return found;
    }

    // Whether a value changes from round to round only by what is loaded or called; `from` has that.
    static bool waits(Value *value, Loop &loop, std::set<Instruction *> &from, int depth) {
        auto *instruction = dyn_cast<Instruction>(value);
        if (!instruction || !loop.contains(instruction))
            return true;
        if (depth > 12)
            return false;
        if (auto *load = dyn_cast<LoadInst>(instruction)) {
            std::set<Instruction *> address;
            if (!waits(load->getPointerOperand(), loop, address, depth + 1))
                return false;
            from.insert(load);
            return true;
        }
        if (isa<PHINode>(instruction))
            return false;
        if (auto *call = dyn_cast<CallBase>(instruction)) {
            if (!isa<IntrinsicInst>(call)) {
                from.insert(call);
                return true;
            }
        }
        for (Value *operand : instruction->operands())
            if (!isa<BasicBlock>(operand) && !isa<Function>(operand) && !waits(operand, loop, from, depth + 1))
                return false;
        return true;
    }

    FunctionCallee hook(const char *name, ArrayRef<Type *> types) {
        Type *none = Type::getVoidTy(context);
        FunctionCallee hook = module.getOrInsertFunction(name, FunctionType::get(none, types, false));
        if (auto *function = dyn_cast<Function>(hook.getCallee())) {
            function->setLinkage(GlobalValue::ExternalWeakLinkage);
            function->setCallingConv(CallingConv::PreserveAll);
            function->addFnAttr(Attribute::Cold);
            function->addFnAttr(Attribute::NoUnwind);
            // What binds lazily does not keep r10.
            function->addFnAttr(Attribute::NonLazyBind);
        }
        return hook;
    }

    void call(IRBuilder<> &builder, FunctionCallee hook, ArrayRef<Value *> values) {
        CallInst *call = builder.CreateCall(hook, values);
        call->setCallingConv(CallingConv::PreserveAll);
    }

    // A test of a byte before an instruction; the block in which a call belongs.
    Instruction *asleep(Instruction *point, Value *byte, const DebugLoc &at) {
        IRBuilder<> builder(point);
        builder.SetCurrentDebugLocation(at);
        Value *on = builder.CreateLoad(builder.getInt8Ty(), byte, "norns.on");
        Value *is_on = builder.CreateICmpNE(on, builder.getInt8(0));
        Instruction *then = SplitBlockAndInsertIfThen(is_on, point, false, unlikely(context));
        then->setDebugLoc(at);
        return then;
    }

    void put(const Access &access, uint32_t number) {
        Type *byte = Type::getInt8Ty(context), *word = Type::getInt64Ty(context);
        Type *narrow = Type::getInt16Ty(context), *wide = Type::getInt32Ty(context);
        StructType *type = StructType::get(context, {byte, byte, narrow, wide});
        bool is_atomic = access.instruction->isAtomic();
        Constant *start = ConstantStruct::get(type, {ConstantInt::get(byte, 0), ConstantInt::get(byte, is_atomic),
                                                     ConstantInt::get(narrow, 0), ConstantInt::get(wide, number)});
        auto *site = new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, start, "norns.guard");
        site->setSection("norns_guard");
        site->setAlignment(Align(8));
        sites.push_back(site);
        DebugLoc at = access.instruction->getDebugLoc();
        IRBuilder<> builder(asleep(access.instruction, site, at));
        builder.SetCurrentDebugLocation(at);
        PointerType *pointer = PointerType::get(context, 0);
        Value *size = builder.CreateZExtOrTrunc(access.size, word);
        Value *what = builder.CreateOr(builder.CreateShl(size, 1), builder.getInt64(access.writes));
        Value *address = builder.CreatePointerBitCastOrAddrSpaceCast(access.address, pointer);
        call(builder, hook("__norns_guard_access", {pointer, pointer, word}), {site, address, what});
    }

    void put(const Order &order) {
        Instruction *behind = order.instruction->getNextNode();
        if (order.before)
            tell(order, order.instruction, order.before);
        // Behind a call that may throw there is no place for it.
        if (order.after && behind)
            tell(order, behind, order.after);
    }

    void tell(const Order &order, Instruction *point, uint32_t does) {
        PointerType *pointer = PointerType::get(context, 0);
        DebugLoc at = order.instruction->getDebugLoc();
        IRBuilder<> builder(asleep(point, sync_byte(), at));
        builder.SetCurrentDebugLocation(at);
        Value *address = order.address ? order.address : ConstantPointerNull::get(pointer);
        Value *what = builder.getInt64(does);
        call(builder, hook("__norns_guard_order", {pointer, Type::getInt64Ty(context)}), {address, what});
    }

    // The byte that is set while orders are observed: one for each linked file.
    GlobalVariable *sync_byte() {
        if (!sync) {
            Type *byte = Type::getInt8Ty(context);
            const char *name = "__norns_guard_observed";
            sync = new GlobalVariable(module, byte, false, GlobalValue::LinkOnceODRLinkage,
                                      ConstantInt::get(byte, 0), name);
            sync->setVisibility(GlobalValue::HiddenVisibility);
            sync->setComdat(module.getOrInsertComdat(name));
            sync->setExternallyInitialized(true);
        }
        return sync;
    }

    // One constructor for each linked file gives its sites to the runtime.
    void hand_over() {
        const char *name = "__norns_register_guard";
        PointerType *pointer = PointerType::get(context, 0);
        Type *none = Type::getVoidTy(context), *word = Type::getInt64Ty(context);
        auto *constructor =
            Function::Create(FunctionType::get(none, false), GlobalValue::LinkOnceODRLinkage, name, module);
        constructor->setVisibility(GlobalValue::HiddenVisibility);
        constructor->setComdat(module.getOrInsertComdat(name));
        auto bound = [&](const char *symbol) {
            auto *global = new GlobalVariable(module, Type::getInt8Ty(context), false,
                                              GlobalValue::ExternalWeakLinkage, nullptr, symbol);
            global->setVisibility(GlobalValue::HiddenVisibility);
            return global;
        };
        IRBuilder<> builder(BasicBlock::Create(context, "", constructor));
        FunctionCallee hook = module.getOrInsertFunction("__norns_guard_sites", none, pointer, pointer, pointer, word);
        auto *function = cast<Function>(hook.getCallee());
        function->setLinkage(GlobalValue::ExternalWeakLinkage);
        Value *there = builder.CreateICmpNE(function, ConstantPointerNull::get(pointer));
        BasicBlock *then = BasicBlock::Create(context, "", constructor);
        BasicBlock *end = BasicBlock::Create(context, "", constructor);
        builder.CreateCondBr(there, then, end);
        builder.SetInsertPoint(then);
        builder.CreateCall(hook, {bound("__start_norns_guard"), bound("__stop_norns_guard"), sync_byte(),
                                  builder.getInt64(hash)});
        builder.CreateBr(end);
        builder.SetInsertPoint(end);
        builder.CreateRetVoid();
        appendToGlobalCtors(module, constructor, 0, constructor);
    }
};

} // namespace norns
