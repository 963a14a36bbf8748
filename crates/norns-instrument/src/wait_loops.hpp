// Loops that wait on a condition: sites at their exits, and at waits that are not in such a loop.
//
// After Figure 4.6 of Carril (2017): a thread that finds its condition true never calls the wait, so the exit
// of the loop, not the call, shows that it could have waited. The paper asks for a lock that dominates the
// loop and an unlock behind every exit, and warns where one is missing. Locks are often taken in another
// function, though, and a wait is often wrapped; so here
//
// - a wait is in a loop if a path leads from it back to a block that dominates it, before it meets a path that
//   did not wait. `if (empty) wait(); take();` inside the loop of a consumer is then in no loop;
// - whether the mutex is held at an exit is asked of the run, which knows it;
// - a warning is given only where the function itself locks the mutex before the wait, so that the wait is
//   not one of a wrapper whose caller has the loop; and never for timed waits, which people use to sleep, nor
//   in the C++ library.
//
// Gets wrong: a condition or mutex that is reached through more than one pointer that the loop itself loads
// has no site.

#pragma once

#include "site.hpp"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Operator.h"

namespace norns {

struct Wait {
    CallBase *call;
    Value *condition;
    // The mutex, or the `std::unique_lock` whose first member is its address.
    Value *mutex;
    bool is_unique_lock;
    bool is_timed;
};

class WaitLoops {
  public:
    WaitLoops(Module &module, SiteWriter &writer) : module(module), writer(writer) {}

    void run() {
        for (Function &function : module) {
            std::vector<Wait> waits;
            for (BasicBlock &block : function)
                for (Instruction &instruction : block)
                    if (auto *call = dyn_cast<CallBase>(&instruction))
                        add_wait(*call, waits);
            if (!waits.empty())
                look_at(function, waits);
        }
    }

  private:
    struct Planned {
        Kind kind;
        Instruction *point;
        DebugLoc place;
        std::string text;
        std::vector<Value *> values;
    };

    Module &module;
    SiteWriter &writer;

    static StringRef callee_of(const CallBase &call) {
        auto *callee = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
        return callee ? callee->getName() : StringRef();
    }

    static void add_wait(CallBase &call, std::vector<Wait> &waits) {
        StringRef name = callee_of(call);
        bool plain = name == "pthread_cond_wait" || name == "cnd_wait";
        bool timed = name == "pthread_cond_timedwait" || name == "pthread_cond_clockwait" ||
                     name == "cnd_timedwait";
        bool cxx = name == "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE" ||
                   name == "_ZNSt3__118condition_variable4waitERNS_11unique_lockINS_5mutexEEE";
        bool cxx_timed = (begins_with(name, "_ZNSt18condition_variable10wait_until") ||
                          begins_with(name, "_ZNSt18condition_variable8wait_for")) &&
                         !takes_predicate(call);
        if ((plain || timed || cxx || cxx_timed) && call.arg_size() >= 2)
            waits.push_back({&call, call.getArgOperand(0), call.getArgOperand(1), cxx || cxx_timed,
                             timed || cxx_timed});
    }

    // Whether a C++ wait has a predicate, and so contains the loop. A predicate without captures is no argument
    // of the call, so its type is asked.
    static bool takes_predicate(const CallBase &call) {
        auto *callee = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
        DISubprogram *program = callee ? callee->getSubprogram() : nullptr;
        // Result, object, lock, time.
        return !program || program->getType()->getTypeArray().size() > 4;
    }

    static bool is_lock(const Wait &wait, const CallBase &call) {
        StringRef name = callee_of(call);
        if (call.arg_size() == 0)
            return false;
        bool locks = wait.is_unique_lock
                         ? name == "_ZNSt11unique_lockISt5mutexEC2ERS0_" ||
                               name == "_ZNSt11unique_lockISt5mutexEC1ERS0_" ||
                               name == "_ZNSt11unique_lockISt5mutexE4lockEv"
                         : name == "pthread_mutex_lock" || name == "pthread_mutex_trylock" ||
                               name == "pthread_mutex_timedlock" || name == "mtx_lock" || name == "mtx_trylock";
        return locks && is_same(call.getArgOperand(0), wait.mutex);
    }

    static bool is_unlock(const Wait &wait, const CallBase &call) {
        StringRef name = callee_of(call);
        if (call.arg_size() == 0)
            return false;
        bool unlocks = wait.is_unique_lock
                           ? name == "_ZNSt11unique_lockISt5mutexED2Ev" ||
                                 name == "_ZNSt11unique_lockISt5mutexED1Ev" ||
                                 name == "_ZNSt11unique_lockISt5mutexE6unlockEv"
                           : name == "pthread_mutex_unlock" || name == "mtx_unlock";
        return unlocks && is_same(call.getArgOperand(0), wait.mutex);
    }

    // Whether two values are computed in the same way from the same variables.
    static bool is_same(const Value *one, const Value *other) {
        one = one->stripPointerCasts();
        other = other->stripPointerCasts();
        if (one == other)
            return true;
        auto *first = dyn_cast<Instruction>(one);
        auto *second = dyn_cast<Instruction>(other);
        if (!first || !second || first->getOpcode() != second->getOpcode() ||
            first->getNumOperands() != second->getNumOperands() ||
            !(isa<LoadInst>(first) || isa<GetElementPtrInst>(first) || isa<CastInst>(first)))
            return false;
        for (unsigned i = 0; i < first->getNumOperands(); i++)
            if (!is_same(first->getOperand(i), second->getOperand(i)))
                return false;
        return true;
    }

    void look_at(Function &function, const std::vector<Wait> &waits) {
        DominatorTree dominators(function);
        LoopInfo loops(dominators);
        bool is_library = begins_with(function.getName(), "_ZNSt") || begins_with(function.getName(), "_ZNKSt");
        std::vector<Planned> planned;
        for (const Wait &wait : waits) {
            std::vector<CallBase *> locks;
            for (BasicBlock &block : function)
                for (Instruction &instruction : block)
                    if (auto *call = dyn_cast<CallBase>(&instruction); call && is_lock(wait, *call))
                        locks.push_back(call);
            if (Loop *loop = loop_of(wait, dominators, loops)) {
                CallBase *inside = nullptr;
                for (CallBase *lock : locks)
                    if (loop->contains(lock->getParent()))
                        inside = lock;
                if (!inside) {
                    mark_exits(Kind::LoopExit, wait, *loop, dominators, loops, planned);
                } else if (!wait.is_timed && !is_library && is_straight(*inside, *wait.call)) {
                    plan(Kind::TestUnlocked, wait, wait.call, dominators, planned);
                    mark_exits(Kind::TestUnlocked, wait, *loop, dominators, loops, planned);
                }
            } else if (!wait.is_timed && !is_library) {
                bool is_own = false;
                for (CallBase *lock : locks)
                    is_own = is_own || dominators.dominates(lock, wait.call);
                if (is_own && (!loops.getLoopFor(wait.call->getParent()) || goes_on(wait, dominators)))
                    plan(Kind::WaitOnce, wait, wait.call, dominators, planned);
            }
        }
        for (Planned &site : planned)
            writer.insert(site.kind, site.point, site.place, site.text, site.values);
    }

    // The loop that tests again what is waited for: the one to whose header a path leads from the wait
    // through blocks that only come after it.
    static Loop *loop_of(const Wait &wait, DominatorTree &dominators, LoopInfo &loops) {
        BasicBlock *here = wait.call->getParent();
        std::vector<BasicBlock *> ahead{here};
        std::set<BasicBlock *> seen{here};
        while (!ahead.empty()) {
            BasicBlock *block = ahead.back();
            ahead.pop_back();
            for (BasicBlock *next : successors(block)) {
                if (dominators.dominates(next, here)) {
                    for (Loop *loop = loops.getLoopFor(here); loop; loop = loop->getParentLoop())
                        if (loop->getHeader() == next)
                            return loop;
                } else if (dominators.dominates(here, next) && !next->isEHPad() && seen.insert(next).second) {
                    ahead.push_back(next);
                }
            }
        }
        return nullptr;
    }

    // Whether nothing is tested between a lock and the wait behind it.
    static bool is_straight(CallBase &lock, CallBase &wait) {
        BasicBlock *block = lock.getParent();
        while (block != wait.getParent()) {
            auto *invoke = dyn_cast<InvokeInst>(block->getTerminator());
            BasicBlock *next = invoke ? invoke->getNormalDest() : block->getSingleSuccessor();
            if (!next || !next->getSinglePredecessor())
                return false;
            block = next;
        }
        return lock.getParent() != wait.getParent() || lock.comesBefore(&wait);
    }

    // Whether something happens after the wait, before the mutex is unlocked, where paths that did not wait
    // come as well.
    static bool goes_on(const Wait &wait, DominatorTree &dominators) {
        BasicBlock *here = wait.call->getParent();
        std::vector<BasicBlock *> ahead{here};
        std::set<BasicBlock *> seen{here};
        while (!ahead.empty()) {
            BasicBlock *block = ahead.back();
            ahead.pop_back();
            bool is_joined = !dominators.dominates(here, block);
            bool is_over = false;
            for (Instruction &instruction : *block) {
                if (block == here && (instruction.comesBefore(wait.call) || &instruction == wait.call))
                    continue;
                if (auto *call = dyn_cast<CallBase>(&instruction)) {
                    is_over = is_unlock(wait, *call);
                    if (is_over)
                        break;
                    auto *callee = dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts());
                    if (is_joined && !(callee && callee->isIntrinsic()))
                        return true;
                }
                if (auto *store = dyn_cast<StoreInst>(&instruction))
                    if (is_joined && !isa<AllocaInst>(getUnderlyingObject(store->getPointerOperand())))
                        return true;
            }
            if (is_over)
                continue;
            for (BasicBlock *next : successors(block))
                if (!dominators.dominates(next, here) && !next->isEHPad() && seen.insert(next).second)
                    ahead.push_back(next);
        }
        return false;
    }

    void mark_exits(Kind kind, const Wait &wait, Loop &loop, DominatorTree &dominators, LoopInfo &loops,
                    std::vector<Planned> &planned) {
        SmallVector<std::pair<BasicBlock *, BasicBlock *>, 4> edges;
        loop.getExitEdges(edges);
        std::set<BasicBlock *> done;
        for (auto [from, to] : edges) {
            if (to->isEHPad() || isa<UnreachableInst>(to->getTerminator()) ||
                !(isa<BranchInst>(from->getTerminator()) || isa<SwitchInst>(from->getTerminator())))
                continue;
            bool is_only = true;
            for (BasicBlock *before : predecessors(to))
                is_only = is_only && loop.contains(before);
            BasicBlock *exit = is_only ? to : SplitEdge(from, to, &dominators, &loops);
            if (exit && done.insert(exit).second)
                plan(kind, wait, &*exit->getFirstInsertionPt(), dominators, planned);
        }
    }

    void plan(Kind kind, const Wait &wait, Instruction *point, DominatorTree &dominators,
              std::vector<Planned> &planned) {
        std::string text = "wait-loop";
        text += '\0';
        std::vector<Value *> values;
        for (auto [value, follows] : {std::pair(wait.condition, 0), std::pair(wait.mutex, int(wait.is_unique_lock))}) {
            // One pointer that only the loop loads is followed by the runtime, which can do so safely.
            int stars = follows;
            Value *here = compute(value, point, dominators);
            if (auto *load = dyn_cast<LoadInst>(value); !here && load && stars == 0) {
                here = compute(load->getPointerOperand(), point, dominators);
                stars = 1;
            }
            if (!here)
                return;
            values.push_back(here);
            text += stars ? "#*8" : "#";
            text += '\0';
        }
        planned.push_back({kind, point, wait.call->getDebugLoc(), text, values});
    }

    // The value at another point, computed again where it is not known there. Only variables are read: what a
    // pointer points to may not be there yet.
    Value *compute(Value *value, Instruction *point, DominatorTree &dominators) {
        auto *instruction = dyn_cast<Instruction>(value);
        if (!instruction || dominators.dominates(instruction, point))
            return value;
        if (auto *load = dyn_cast<LoadInst>(instruction)) {
            Value *variable = load->getPointerOperand()->stripPointerCasts();
            if (load->isVolatile() || load->isAtomic() || !(isa<AllocaInst>(variable) || isa<GlobalVariable>(variable)))
                return nullptr;
        } else if (!(isa<GetElementPtrInst>(instruction) || isa<CastInst>(instruction) ||
                     isa<BinaryOperator>(instruction))) {
            return nullptr;
        }
        std::vector<Value *> operands;
        for (Value *operand : instruction->operands()) {
            Value *here = compute(operand, point, dominators);
            if (!here)
                return nullptr;
            operands.push_back(here);
        }
        Instruction *copy = instruction->clone();
        for (unsigned i = 0; i < operands.size(); i++)
            copy->setOperand(i, operands[i]);
        copy->insertBefore(point);
        writer.mine(copy);
        return copy;
    }
};

} // namespace norns
