// Two bodies for a function with sites: one without them for runs in which all of them sleep, and one with
// them. The function decides at its entry, by one byte, which one runs.
//
// A site inside a loop costs more than its test: what the loop accesses must be in memory where the site could
// look, so the compiler keeps less in registers. In the first body nothing of that is left. The price is that
// the code is there twice. Arnold and Ryder's sampling ("A Framework for Reducing the Cost of Instrumented
// Code", 2001) duplicates code for the same reason.

#pragma once

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"

#include <vector>

namespace norns {

using namespace llvm;

// A site, and the test for it in the code.
struct SiteTest {
    GlobalVariable *site;
    Instruction *is_on;
};

// Tests a byte that the runtime sets before the program starts.
inline Instruction *test_byte(IRBuilder<> &builder, Value *byte) {
    Type *type = builder.getInt8Ty();
    auto *load = builder.CreateLoad(type, byte, "norns.on");
    load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(builder.getContext(), {}));
    return cast<Instruction>(builder.CreateICmpNE(load, ConstantInt::get(type, 0)));
}

inline MDNode *unlikely(LLVMContext &context) {
    return MDBuilder(context).createBranchWeights(1, 1 << 20);
}

// Where the code of a function begins, behind its variables.
inline Instruction *beginning(Function &function) {
    Instruction *first = function.getEntryBlock().getFirstNonPHIOrDbg();
    while (isa<AllocaInst>(first) || isa<DbgInfoIntrinsic>(first))
        first = first->getNextNode();
    return first;
}

class Bodies {
  public:
    Bodies(Function &function, const std::vector<SiteTest> &tests)
        : function(function), tests(tests), context(function.getContext()) {}

    // Whether one test at the entry is less than the tests of the sites, and the body can be copied.
    static bool pay(Function &function, const std::vector<SiteTest> &tests) {
        if (function.isPresplitCoroutine())
            return false;
        for (BasicBlock &block : function) {
            if (block.hasAddressTaken())
                return false;
            for (Instruction &instruction : block)
                if (auto *call = dyn_cast<CallBase>(&instruction); call && call->cannotDuplicate())
                    return false;
        }
        DominatorTree dominators(function);
        LoopInfo loops(dominators);
        bool in_loop = false;
        for (const SiteTest &test : tests)
            in_loop = in_loop || loops.getLoopFor(test.is_on->getParent());
        return in_loop || tests.size() > 1;
    }

    void split() {
        BasicBlock &entry = function.getEntryBlock();
        // Variables on the stack are the same for both bodies.
        Instruction *first = &*entry.getFirstInsertionPt();
        for (Instruction &instruction : make_early_inc_range(entry))
            if (auto *variable = dyn_cast<AllocaInst>(&instruction))
                if (isa<Constant>(variable->getArraySize()) && variable != first)
                    variable->moveBefore(first);
        BasicBlock *asleep = entry.splitBasicBlock(beginning(function), "norns.asleep");
        SmallVector<BasicBlock *, 16> originals, copies;
        for (BasicBlock &block : function)
            if (&block != &entry)
                originals.push_back(&block);
        ValueToValueMapTy copied;
        for (BasicBlock *block : originals) {
            BasicBlock *copy = CloneBasicBlock(block, copied, ".norns", &function);
            copied[block] = copy;
            copies.push_back(copy);
        }
        remapInstructionsInBlocks(copies, copied);
        auto *awake = cast<BasicBlock>(copied[asleep]);
        put_to_sleep();
        decide(entry, asleep, awake);
    }

  private:
    Function &function;
    const std::vector<SiteTest> &tests;
    LLVMContext &context;

    // Takes the sites out of the first body.
    void put_to_sleep() {
        for (const SiteTest &test : tests) {
            // Another site may stand between the test and its branch.
            auto *branch = cast<BranchInst>(test.is_on->user_back());
            BasicBlock *call = branch->getSuccessor(0);
            auto *load = cast<Instruction>(test.is_on->getOperand(0));
            test.is_on->replaceAllUsesWith(ConstantInt::getFalse(context));
            test.is_on->eraseFromParent();
            load->eraseFromParent();
            ConstantFoldTerminator(branch->getParent());
            DeleteDeadBlock(call);
        }
    }

    // The byte that decides is set with any of the sites.
    void decide(BasicBlock &entry, BasicBlock *asleep, BasicBlock *awake) {
        Type *type = Type::getInt8Ty(context);
        auto *byte = new GlobalVariable(*function.getParent(), type, false, GlobalValue::InternalLinkage,
                                        ConstantInt::get(type, 0), "norns.body");
        byte->setExternallyInitialized(true);
        for (const SiteTest &test : tests) {
            auto *record = cast<ConstantStruct>(test.site->getInitializer());
            SmallVector<Constant *> fields;
            for (Value *field : record->operand_values())
                fields.push_back(cast<Constant>(field));
            fields.back() = byte;
            test.site->setInitializer(ConstantStruct::get(record->getType(), fields));
        }
        Instruction *end = entry.getTerminator();
        IRBuilder<> builder(end);
        Instruction *any = test_byte(builder, byte);
        any->setMetadata("nosanitize", MDNode::get(context, {}));
        cast<Instruction>(any->getOperand(0))->setMetadata("nosanitize", MDNode::get(context, {}));
        builder.CreateCondBr(any, awake, asleep, unlikely(context));
        end->eraseFromParent();
    }
};

} // namespace norns
