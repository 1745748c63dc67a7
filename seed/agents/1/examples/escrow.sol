// SPDX-License-Identifier: MIT
pragma solidity 0.8.24;

/// @title MilestoneEscrow
/// @notice Holds ETH for one buyer and one seller and releases it by milestone.
///         Payouts are credited first and pulled by the payee afterwards.
contract MilestoneEscrow {
    error NotBuyer();
    error NotArbiter();
    error WrongState();
    error BadAmount();
    error NothingToPull();
    error PayoutFailed();
    error ZeroAddress();

    enum State { Empty, Funded, Disputed, Closed }

    address public immutable buyer;
    address public immutable seller;
    address public immutable arbiter;
    uint256 public immutable disputeWindow;

    State public state;
    uint256 public held;
    uint256 public fundedAt;
    mapping(address => uint256) public credit;
    bool private entered;

    event Funded(uint256 amount);
    event Released(uint256 amount, uint256 left);
    event DisputeOpened(uint256 at);
    event Resolved(uint256 toBuyer, uint256 toSeller);
    event Pulled(address indexed payee, uint256 amount);

    modifier onlyBuyer() {
        if (msg.sender != buyer) revert NotBuyer();
        _;
    }

    modifier nonReentrant() {
        if (entered) revert WrongState();
        entered = true;
        _;
        entered = false;
    }

    constructor(address seller_, address arbiter_, uint256 disputeWindow_) {
        if (seller_ == address(0) || arbiter_ == address(0)) revert ZeroAddress();
        buyer = msg.sender;
        seller = seller_;
        arbiter = arbiter_;
        disputeWindow = disputeWindow_;
    }

    function fund() external payable onlyBuyer {
        if (state != State.Empty) revert WrongState();
        if (msg.value == 0) revert BadAmount();
        state = State.Funded;
        held = msg.value;
        fundedAt = block.timestamp;
        emit Funded(msg.value);
    }

    function release(uint256 amount) external onlyBuyer {
        if (state != State.Funded) revert WrongState();
        if (amount == 0 || amount > held) revert BadAmount();
        held -= amount;
        credit[seller] += amount;
        if (held == 0) state = State.Closed;
        emit Released(amount, held);
    }

    function openDispute() external onlyBuyer {
        if (state != State.Funded) revert WrongState();
        if (block.timestamp > fundedAt + disputeWindow) revert WrongState();
        state = State.Disputed;
        emit DisputeOpened(block.timestamp);
    }

    /// @notice After the window without a dispute the seller takes what is left.
    function claimAfterWindow() external {
        if (state != State.Funded || block.timestamp <= fundedAt + disputeWindow) revert WrongState();
        uint256 amount = held;
        held = 0;
        state = State.Closed;
        credit[seller] += amount;
        emit Released(amount, 0);
    }

    function resolve(uint256 toBuyer) external {
        if (msg.sender != arbiter) revert NotArbiter();
        if (state != State.Disputed) revert WrongState();
        if (toBuyer > held) revert BadAmount();
        uint256 toSeller = held - toBuyer;
        held = 0;
        state = State.Closed;
        credit[buyer] += toBuyer;
        credit[seller] += toSeller;
        emit Resolved(toBuyer, toSeller);
    }

    function pull() external nonReentrant {
        uint256 amount = credit[msg.sender];
        if (amount == 0) revert NothingToPull();
        credit[msg.sender] = 0;
        emit Pulled(msg.sender, amount);
        (bool ok, ) = msg.sender.call{value: amount}("");
        if (!ok) revert PayoutFailed();
    }
}
