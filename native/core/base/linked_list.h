// An intrusive list: it allocates nothing, and removes a node in constant time.

#pragma once

namespace stripelock {

template <typename Node>
struct Links {
  Node* previous = nullptr;
  Node* next = nullptr;
};

// `links`: the member of a node that links it into this kind of list. A node is in at most one list of each kind.
template <typename Node, Links<Node> Node::*links>
class LinkedList {
 public:
  LinkedList() = default;
  LinkedList(const LinkedList&) = delete;
  LinkedList& operator=(const LinkedList&) = delete;

  bool empty() const { return !first_; }
  // nullptr if the list is empty.
  Node* first() const { return first_; }
  static Node* after(const Node& node) { return (node.*links).next; }

  void pushBack(Node& node) {
    node.*links = {.previous = last_};
    (last_ ? (last_->*links).next : first_) = &node;
    last_ = &node;
  }

  // The node must be in this list.
  void remove(Node& node) {
    const Links<Node> at = node.*links;
    (at.previous ? (at.previous->*links).next : first_) = at.next;
    (at.next ? (at.next->*links).previous : last_) = at.previous;
    node.*links = {};
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;
};

}  // namespace stripelock
