// Sites for tracked runs (`norns sketch --track`): where branches lead, and, where the kernel refuses watchpoints,
// accesses.
//
// A branch with several targets has a site on the way to each of them. Its record has the line of the branch, by
// which a plan names it; the call behind it has the line of the target. An access has its site behind it, as a
// watchpoint traps behind it; values: address and size. The stack is left out.
//
// Left out: jumps through addresses, the targets of calls that may throw, and copies of blocks of memory.

#pragma once

#include "site.hpp"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"

namespace norns {

class TrackedSites {
  public:
    TrackedSites(Module &module, SiteWriter &writer) : writer(writer), module(module) {}

    void run(bool with_accesses) {
        for (Function &function : module) {
            if (function.isDeclaration() || begins_with(function.getName(), "__norns"))
                continue;
            std::vector<Instruction *> found, branches;
            for (BasicBlock &block : function) {
                for (Instruction &instruction : block)
                    if (with_accesses && instruction.getDebugLoc() && !writer.is_ours(instruction))
                        found.push_back(&instruction);
                Instruction *end = block.getTerminator();
                bool decides = isa<BranchInst>(end) || isa<SwitchInst>(end);
                if (decides && end->getNumSuccessors() > 1 && end->getDebugLoc() && !writer.is_ours(*end))
                    branches.push_back(end);
            }
            for (Instruction *instruction : found)
                access(*instruction);
            for (Instruction *branch : branches)
                targets(*branch);
        }
        keep_variables();
    }

  private:
    SiteWriter &writer;
    Module &module;

    // Optimisations that take a static variable apart would leave nothing that could be watched.
    void keep_variables() {
        std::vector<GlobalValue *> kept;
        for (GlobalVariable &variable : module.globals())
            if (variable.hasLocalLinkage() && !variable.isConstant() && !variable.hasSection() &&
                !begins_with(variable.getName(), "norns."))
                kept.push_back(&variable);
        appendToCompilerUsed(module, kept);
    }

    void access(Instruction &instruction) {
        auto pass = [&](Kind kind, Value *pointer, Type *type) {
            const Value *object = getUnderlyingObject(pointer);
            auto *global = dyn_cast<GlobalVariable>(object);
            if (isa<AllocaInst>(object) || (global && (global->isConstant() || global->isThreadLocal())))
                return;
            Type *word = Type::getInt64Ty(module.getContext());
            TypeSize size = module.getDataLayout().getTypeStoreSize(type);
            if (size.isScalable())
                return;
            const char text[] = "access\0#\0#";
            writer.insert(kind, instruction.getNextNode(), instruction.getDebugLoc(),
                          std::string(text, sizeof text), {pointer, ConstantInt::get(word, size.getFixedValue())});
        };
        if (auto *load = dyn_cast<LoadInst>(&instruction)) {
            pass(Kind::Read, load->getPointerOperand(), load->getType());
        } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
            pass(Kind::Write, store->getPointerOperand(), store->getValueOperand()->getType());
        } else if (auto *change = dyn_cast<AtomicRMWInst>(&instruction)) {
            pass(Kind::Write, change->getPointerOperand(), change->getType());
            pass(Kind::Read, change->getPointerOperand(), change->getType());
        } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
            Type *type = exchange->getNewValOperand()->getType();
            pass(Kind::Write, exchange->getPointerOperand(), type);
            pass(Kind::Read, exchange->getPointerOperand(), type);
        }
    }

    void targets(Instruction &branch) {
        std::set<BasicBlock *> done;
        for (unsigned i = 0; i < branch.getNumSuccessors(); i++) {
            BasicBlock *target = branch.getSuccessor(i);
            DebugLoc shown = line_of(*target, branch.getDebugLoc());
            if (!target->getUniquePredecessor()) {
                CriticalEdgeSplittingOptions options;
                target = SplitCriticalEdge(&branch, i, options.setMergeIdenticalEdges());
            }
            if (!target || target->isEHPad() || !done.insert(target).second)
                continue;
            writer.insert(Kind::Branch, &*target->getFirstInsertionPt(), branch.getDebugLoc(),
                          std::string("branch", 7), {}, shown);
        }
    }

    // Where the block begins in the source.
    static DebugLoc line_of(BasicBlock &block, DebugLoc otherwise) {
        for (Instruction &instruction : block)
            if (!isa<DbgInfoIntrinsic>(instruction) && instruction.getDebugLoc() &&
                instruction.getDebugLoc().getLine() > 0)
                return instruction.getDebugLoc();
        return otherwise;
    }
};

} // namespace norns
