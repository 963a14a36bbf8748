// One site: its record in the program, the test that the program makes when it passes it, and the call
// of the runtime behind that test.
//
// The record is the C structure
//
//     struct site {
//         uint8_t on, kind; uint16_t passed; uint32_t line; const char *file, *event; uint8_t *body;
//     };
//
// in the section `norns_sites`. The position in that section is the number of the site, which is stable for
// one build. The byte `on` is 0 until the plan of a run switches the site on; then the program computes the
// values and calls `__norns_site`. `event` is a name and fields, each ended by a zero byte, the last one by
// two. `passed` is the runtime's. A field that begins with `#` is a value that the program passes; `*`s after it say how often the
// runtime is to dereference it, and a digit how many bytes it then reads. `body` is null, or the byte that has
// to be set with `on`: the function has a second body for its sites (`bodies.hpp`). A zero byte stands before
// each text, so that it can be found in the file of the program.
//
// A sleeping site is a load of one byte, a test and a branch that is never taken. The load is marked as
// invariant: the plan of a run is made before the program starts. bench/sites measures what is left.

#pragma once

#include "bodies.hpp"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace norns {

using namespace llvm;

// LLVM 15 spells these otherwise than later versions.
inline bool begins_with(StringRef text, StringRef part) { return text.take_front(part.size()) == part; }
inline bool ends_with(StringRef text, StringRef part) { return text.take_back(part.size()) == part; }

// What a site is for. The numbers are part of the record: `norns-rt/src/sites.rs` has them too.
enum class Kind : uint8_t {
    Call = 1,
    Body = 2,
    ReadGlobal = 3,
    WriteGlobal = 4,
    Line = 5,
    // The exit of a loop that waits on a condition; values: the condition and the mutex.
    LoopExit = 6,
    // A wait after which what was waited for is not tested again; values as above.
    WaitOnce = 7,
    // A wait, or the exit of its loop, where what is waited for is tested without the mutex.
    TestUnlocked = 8,
    // Where a branch leads to, in a tracked run.
    Branch = 9,
    // An access, in a tracked run; values: its address and size.
    Read = 10,
    Write = 11,
};

class SiteWriter {
  public:
    explicit SiteWriter(Module &module) : module(module), context(module.getContext()) {}

    // Puts a site before an instruction. The call of the runtime has the place of the record, or another one.
    void insert(Kind kind, Instruction *point, DebugLoc place, const std::string &text,
                const std::vector<Value *> &values, DebugLoc shown = DebugLoc()) {
        Type *byte = Type::getInt8Ty(context), *word = Type::getInt64Ty(context);
        PointerType *pointer = PointerType::get(context, 0);
        StringRef file = place ? cast<DIScope>(place.getScope())->getFilename() : StringRef("");
        StructType *type = StructType::get(context, {byte, byte, Type::getInt16Ty(context),
                                                     Type::getInt32Ty(context), pointer, pointer, pointer});
        Constant *start = ConstantStruct::get(
            type, {ConstantInt::get(byte, 0), ConstantInt::get(byte, uint8_t(kind)),
                   ConstantInt::get(Type::getInt16Ty(context), 0),
                   ConstantInt::get(Type::getInt32Ty(context), place ? place.getLine() : 0),
                   string(file.str()), string(text), ConstantPointerNull::get(pointer)});
        auto *site = new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, start, "norns.site");
        site->setSection("norns_sites");
        site->setAlignment(Align(8));
        // The runtime writes it: nothing may be concluded from the 0 that it starts with.
        site->setExternallyInitialized(true);

        Function *function = point->getFunction();
        Value *buffer = values.empty() ? nullptr : buffer_of(*function, values.size());
        IRBuilder<> builder(point);
        if (!shown)
            shown = place;
        builder.SetCurrentDebugLocation(shown);
        Instruction *is_on = test_byte(builder, site);
        Instruction *then = SplitBlockAndInsertIfThen(is_on, point, false, unlikely(context));
        then->setDebugLoc(shown);
        mine(cast<Instruction>(is_on->getOperand(0)));
        mine(is_on);
        mine(then);
        sites.push_back(site);
        tests[function].push_back({site, is_on});
        builder.SetInsertPoint(then);
        builder.SetCurrentDebugLocation(shown);
        for (size_t i = 0; i < values.size(); i++) {
            Value *value = values[i];
            if (value->getType()->isPointerTy())
                value = builder.CreatePtrToInt(value, word);
            else if (value->getType()->isIntegerTy(1))
                value = builder.CreateZExt(value, word);
            else
                value = builder.CreateSExtOrTrunc(value, word);
            if (auto *cast = dyn_cast<Instruction>(value); cast && value != values[i])
                mine(cast);
            Value *slot = builder.CreateConstInBoundsGEP2_64(
                cast<AllocaInst>(buffer)->getAllocatedType(), buffer, 0, i);
            if (auto *part = dyn_cast<Instruction>(slot))
                mine(part);
            mine(builder.CreateStore(value, slot));
        }
        FunctionCallee hook = module.getOrInsertFunction("__norns_site", Type::getVoidTy(context), pointer,
                                                         word, pointer);
        if (auto *function = dyn_cast<Function>(hook.getCallee())) {
            function->setLinkage(GlobalValue::ExternalWeakLinkage);
            function->addFnAttr(Attribute::Cold);
        }
        Value *none = ConstantPointerNull::get(pointer);
        mine(builder.CreateCall(hook, {site, ConstantInt::get(word, values.size()), buffer ? buffer : none}));
    }

    // Whether an instruction was put in for a site, and so is no target of another one.
    bool is_ours(const Instruction &instruction) const { return ours.count(&instruction) > 0; }

    void mine(Instruction *instruction) {
        ours.insert(instruction);
        instruction->setMetadata("nosanitize", MDNode::get(context, {}));
    }

    // Keeps the records and gives them to the runtime; whether there are any.
    bool finish() {
        if (sites.empty())
            return false;
        for (auto &[function, of_function] : tests)
            if (Bodies::pay(*function, of_function))
                Bodies(*function, of_function).split();
        appendToCompilerUsed(module, sites);
        register_sites();
        return true;
    }

  private:
    Module &module;
    LLVMContext &context;
    std::vector<GlobalValue *> sites;
    MapVector<Function *, std::vector<SiteTest>> tests;
    std::set<const Instruction *> ours;
    std::map<std::pair<Function *, size_t>, AllocaInst *> buffers;

    // Room on the stack for so many values: what one site has put there is read before the next one comes.
    Value *buffer_of(Function &function, size_t count) {
        AllocaInst *&buffer = buffers[{&function, count}];
        if (!buffer) {
            IRBuilder<> entry(&*function.getEntryBlock().getFirstInsertionPt());
            Type *type = ArrayType::get(Type::getInt64Ty(context), count);
            buffer = entry.CreateAlloca(type, nullptr, "norns.fields");
            ours.insert(buffer);
        }
        return buffer;
    }

    Constant *string(const std::string &text) {
        Constant *bytes = ConstantDataArray::getString(context, std::string(1, 0) + text);
        auto *global = new GlobalVariable(module, bytes->getType(), true, GlobalValue::PrivateLinkage, bytes,
                                          "norns.text");
        global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
        Type *byte = Type::getInt8Ty(context);
        Constant *one = ConstantInt::get(Type::getInt64Ty(context), 1);
        return ConstantExpr::getInBoundsGetElementPtr(byte, global, one);
    }

    // One constructor for each linked file gives its sites to the runtime.
    void register_sites() {
        const char *name = "__norns_register_sites";
        if (module.getFunction(name))
            return;
        PointerType *pointer = PointerType::get(context, 0);
        Type *none = Type::getVoidTy(context);
        auto *constructor = Function::Create(FunctionType::get(none, false), GlobalValue::LinkOnceODRLinkage,
                                             name, module);
        constructor->setVisibility(GlobalValue::HiddenVisibility);
        constructor->setComdat(module.getOrInsertComdat(name));
        constructor->addFnAttr(Attribute::DisableSanitizerInstrumentation);
        auto bound = [&](const char *symbol) {
            auto *global = new GlobalVariable(module, Type::getInt8Ty(context), false,
                                              GlobalValue::ExternalLinkage, nullptr, symbol);
            global->setVisibility(GlobalValue::HiddenVisibility);
            return global;
        };
        IRBuilder<> builder(BasicBlock::Create(context, "", constructor));
        FunctionCallee hook = module.getOrInsertFunction("__norns_sites", none, pointer, pointer);
        auto *function = cast<Function>(hook.getCallee());
        function->setLinkage(GlobalValue::ExternalWeakLinkage);
        Value *there = builder.CreateICmpNE(function, ConstantPointerNull::get(pointer));
        BasicBlock *call = BasicBlock::Create(context, "", constructor);
        BasicBlock *end = BasicBlock::Create(context, "", constructor);
        builder.CreateCondBr(there, call, end);
        builder.SetInsertPoint(call);
        builder.CreateCall(hook, {bound("__start_norns_sites"), bound("__stop_norns_sites")});
        builder.CreateBr(end);
        builder.SetInsertPoint(end);
        builder.CreateRetVoid();
        appendToGlobalCtors(module, constructor, 0, constructor);
    }
};

} // namespace norns
