// SPDX-License-Identifier: MIT
pragma solidity >=0.8.0 <0.9.0;

interface IFeed {
    function latestAnswer() external view returns (int256);
    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80);
}

abstract contract UUPSBase {
    bytes32 internal constant IMPL_SLOT = bytes32(uint256(keccak256("eip1967.proxy.implementation")) - 1);

    function _authorizeUpgrade(address newImplementation) internal virtual;

    function upgradeToAndCall(address newImplementation, bytes calldata init) external payable {
        _authorizeUpgrade(newImplementation);
        bytes32 slot = IMPL_SLOT;
        assembly {
            sstore(slot, newImplementation)
        }
        if (init.length > 0) {
            (bool ok, ) = newImplementation.delegatecall(init);
            require(ok, "init failed");
        }
    }
}

/// @title TeamWallet
/// @notice Upgradeable wallet with pluggable modules and a daily limit in dollars.
contract TeamWallet is UUPSBase {
    address public owner;
    IFeed public feed;
    uint256 public dailyLimitUsd;
    uint256 public spentToday;
    uint256 public day;
    mapping(address => bool) public relayers;

    modifier onlyOwner() {
        require(msg.sender == owner, "owner");
        _;
    }

    function initialize(address owner_, IFeed feed_, uint256 limit_) external {
        require(owner_ != address(0), "zero owner");
        owner = owner_;
        feed = feed_;
        dailyLimitUsd = limit_;
    }

    function _authorizeUpgrade(address) internal override {}

    receive() external payable {}

    function setRelayer(address relayer, bool allowed) external onlyOwner {
        relayers[relayer] = allowed;
    }

    function setDailyLimit(uint256 limit) public {
        dailyLimitUsd = limit;
    }

    /// @notice Runs a module in the context of the wallet.
    function runModule(address module, bytes calldata data) external returns (bytes memory) {
        (bool ok, bytes memory out) = module.delegatecall(data);
        require(ok, "module failed");
        return out;
    }

    /// @notice Relayed call; the relayer pays the gas.
    function relay(address target, uint256 value, bytes calldata data) external {
        require(relayers[msg.sender], "relayer");
        _spend(value);
        target.call{value: value}(data);
    }

    function _spend(uint256 value) internal {
        (, int256 answer, , , ) = feed.latestRoundData();
        uint256 usd = value * uint256(answer) / 1e8;
        if (day != block.timestamp / 1 days) {
            day = block.timestamp / 1 days;
            spentToday = 0;
        }
        spentToday += usd;
        require(spentToday <= dailyLimitUsd, "limit");
    }

    function close(address payable heir) external onlyOwner {
        selfdestruct(heir);
    }
}
