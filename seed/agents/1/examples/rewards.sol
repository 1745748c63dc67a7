// SPDX-License-Identifier: MIT
pragma solidity 0.8.24;

interface IERC20 {
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// @title SeasonRewards
/// @notice Staking with a signed bonus claim per season and a raffle among the stakers.
contract SeasonRewards {
    struct Stake {
        uint128 amount;
        uint64 since;
        uint64 season;
    }

    address public immutable signer;
    address public immutable admin;
    IERC20 public immutable token;
    uint256 public constant RATE_PER_DAY = 5;
    uint256 public constant RATE_BASE = 10_000;

    mapping(address => Stake) public stakes;
    address[] public tickets;
    uint64 public season = 1;

    event Claimed(address indexed account, uint256 amount, string memo);
    event RaffleWon(address indexed account, uint256 prize);

    constructor(IERC20 token_, address signer_) {
        token = token_;
        signer = signer_;
        admin = msg.sender;
    }

    function stake(uint256 amount) external {
        _stakeFrom(msg.sender, amount);
    }

    /// @notice Lets an integrator stake for an account that approved this contract.
    function stakeFor(address account, uint256 amount) external {
        _stakeFrom(account, amount);
    }

    function _stakeFrom(address account, uint256 amount) internal {
        require(amount > 0, "amount");
        Stake storage s = stakes[account];
        if (s.amount == 0) tickets.push(account);
        s.amount += uint128(amount);
        s.since = uint64(block.timestamp);
        s.season = season;
        token.transferFrom(account, address(this), amount);
    }

    function pending(address account) public view returns (uint256) {
        Stake memory s = stakes[account];
        uint256 elapsed = block.timestamp - s.since;
        return elapsed / 1 days * RATE_PER_DAY * s.amount / RATE_BASE;
    }

    function claimBonus(
        address account,
        uint256 amount,
        string calldata memo,
        string calldata campaign,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 digest = keccak256(abi.encodePacked(account, amount, memo, campaign));
        require(ecrecover(digest, v, r, s) == signer, "bad signature");
        require(token.transfer(account, amount), "transfer");
        emit Claimed(account, amount, memo);
    }

    function unstake(uint256 amount) external {
        Stake storage s = stakes[msg.sender];
        uint256 reward = pending(msg.sender);
        unchecked {
            s.amount -= uint128(amount);
        }
        s.since = uint64(block.timestamp);
        require(token.transfer(msg.sender, amount + reward), "transfer");
    }

    function drawRaffle(uint256 prize) external {
        require(msg.sender == admin, "admin");
        uint256 n = tickets.length;
        bytes32 seed = keccak256(abi.encode(blockhash(block.number - 1), block.timestamp, n));
        address winner = tickets[uint256(seed) % n];
        require(token.transfer(winner, prize), "transfer");
        emit RaffleWon(winner, prize);
    }
}
